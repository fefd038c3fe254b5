from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.onnx_files import inspect_model
from shared.speech.graphs.sessions import GraphSession, SessionSettings
from tests.unit.graphs.small_graphs import content, tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

MORE_THAN_THERE_IS = 1 << 45


def a_graph_of_any_size() -> Graph:
    """A graph that repeats its input as often as it is told to."""
    nodes = [helper.make_node("Expand", ["wave", "length"], ["audio"])]
    inputs = [tensor("wave", [1]), tensor("length", [1], TensorProto.INT64)]
    graph = helper.make_graph(nodes, "expand", inputs, [tensor("audio", ["samples"])])
    data = content(graph)
    return Graph("expand.onnx", data, inspect_model(data))


def inputs_of(length: int) -> dict[str, NDArray[Any]]:
    return {"wave": np.ones(1, np.float32), "length": np.array([length], np.int64)}


def test_a_lack_of_memory_is_told_from_a_mistake_in_the_inputs() -> None:
    session = GraphSession(a_graph_of_any_size(), SessionSettings())

    assert session.run(inputs_of(3), "audio").tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(MemoryError, match=r"expand\.onnx"):
        session.run(inputs_of(MORE_THAN_THERE_IS), "audio")
    with pytest.raises(Exception, match="Unexpected input data type") as found:
        session.run({**inputs_of(3), "wave": np.ones(1)}, "audio")
    assert not isinstance(found.value, MemoryError)
