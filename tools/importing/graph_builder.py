"""Writes ONNX graphs node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.bundles.files import VoiceFileError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tools.importing.retrieval_index import RetrievalIndex


OPSET = 18
IR_VERSION = 9

FLOAT, INT64, DOUBLE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE


class GraphBuilder:
    """A graph that grows; tensors are known by the names that the methods return."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, kind: int, shape: Sequence[int | str | None]) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, tensor: str, name: str, kind: int, shape: Sequence[int | str]) -> None:
        self._nodes.append(helper.make_node("Identity", [tensor], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, kind, list(shape)))

    def constant(self, value: NDArray[Any]) -> str:
        """Add a constant; equal ones are kept once."""
        content = np.ascontiguousarray(value)
        key = (content.dtype.str, np.shape(value), content.tobytes())
        if key not in self._known:
            name = f"c{len(self._initializers)}"
            tensor = numpy_helper.from_array(content.reshape(np.shape(value)), name)
            self._initializers.append(tensor)
            self._known[key] = name
        return self._known[key]

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def sizes(self, *values: int) -> str:
        """Add an int64 vector, as shapes and axes are given."""
        return self.constant(np.array(values, np.int64))

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.nodes(kind, inputs, 1, **attributes)[0]

    def nodes(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        names = [f"t{len(self._nodes)}_{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def model(self, name: str, metadata: Mapping[str, str]) -> bytes:
        """Return the checked model as the bytes of an ONNX file."""
        graph = helper.make_graph(
            self._nodes, name, self._inputs, self._outputs, self._initializers
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


def build_retrieval(index: RetrievalIndex) -> bytes:
    """Write the graph.

    Its outputs are `vectors`, float16 [N, F]; `centroids`, float32 [M, F]; and `cells`, int64 [N].
    Half precision moves a vector by less than a thousandth of its length and halves the file.
    """
    with np.errstate(over="ignore"):
        vectors = index.vectors.astype(np.float16)
    if not np.isfinite(vectors).all():
        raise VoiceFileError("vectors: expected numbers of at most 65504, found larger ones.")
    graph = GraphBuilder()
    count, width = vectors.shape
    cells = index.cells.astype(np.int64)
    graph.output(graph.constant(vectors), "vectors", TensorProto.FLOAT16, (count, width))
    graph.output(graph.constant(index.centroids), "centroids", FLOAT, index.centroids.shape)
    graph.output(graph.constant(cells), "cells", INT64, (count,))
    return graph.model("retrieval", {})
