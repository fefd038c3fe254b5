"""Graphs that draw their own noise, rewritten to take it as an input.

ONNX Runtime cannot be told the seed of a graph's random operators, so that the same text would
never give the same samples. Each of them reads on from where the one before it stopped, round and
round:

    noise[(start + i) mod N]  for i = 0 .. size - 1,  in the shape that the operator had to fill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from shared.process.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx import ModelProto, NodeProto

NOISE = "noise"
_NORMAL_LIKE = "RandomNormalLike"
_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        _NORMAL_LIKE,
        "RandomUniform",
        "RandomUniformLike",
    }
)
_PREFIX = "noise_input"


class RandomGraphError(ValueError):
    """A graph whose chance cannot be taken out of it; one sentence."""


def take_noise_as_input(model: ModelProto) -> int:
    """Rewrite a graph in place so that it takes its noise as the input `noise`, float32 [N].

    Returns:
        How many random operators there were; with none, the graph stays as it is.

    Raises:
        RandomGraphError: the graph draws in a way that is not known, or has such an input already.
    """
    graph = model.graph
    _refuse_nested(graph.node)
    if NOISE in {value.name for value in graph.input}:
        raise RandomGraphError(f"input {quoted(NOISE)}: expected a graph without it, found one.")
    nodes: list[NodeProto] = []
    start = f"{_PREFIX}/zero"
    count = 0
    for node in graph.node:
        if node.op_type not in _RANDOM:
            nodes.append(node)
            continue
        if node.op_type != _NORMAL_LIKE:
            raise RandomGraphError(
                f"operator {quoted(node.op_type)}: expected chance from {_NORMAL_LIKE} alone,"
                " found this."
            )
        count += 1
        replacement, start = _reading(node, start, count)
        nodes += replacement
    if count == 0:
        return 0
    del graph.node[:]
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info(NOISE, TensorProto.FLOAT, ["values"]))
    for name, value in (("zero", 0), ("one", 1)):
        graph.initializer.append(
            numpy_helper.from_array(np.array(value, np.int64), f"{_PREFIX}/{name}")
        )
    return count


def _refuse_nested(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            for graph in graphs:
                for inner in graph.node:
                    if inner.op_type in _RANDOM:
                        raise RandomGraphError(
                            f"operator {quoted(inner.op_type)}: expected it outside of"
                            f" {quoted(node.op_type)}, found it inside."
                        )
                _refuse_nested(graph.node)


def _reading(node: NodeProto, start: str, number: int) -> tuple[list[NodeProto], str]:
    """Make what reads the noise instead of a RandomNormalLike, and say where it stops."""
    name = f"{_PREFIX}/{number}"
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    if attributes.get("dtype", TensorProto.FLOAT) != TensorProto.FLOAT:
        raise RandomGraphError(
            f"operator {quoted(_NORMAL_LIKE)}: expected float32, found another type."
        )
    if (attributes.get("mean", 0.0), attributes.get("scale", 1.0)) != (0.0, 1.0):
        raise RandomGraphError(
            f"operator {quoted(_NORMAL_LIKE)}: expected mean 0 and scale 1, found others."
        )
    if (len(node.input), len(node.output)) != (1, 1):
        raise RandomGraphError(
            f"operator {quoted(_NORMAL_LIKE)}: expected one input and one output, found"
            f" {len(node.input)} and {len(node.output)}."
        )
    like, output = node.input[0], node.output[0]
    nodes = [
        helper.make_node("Shape", [like], [f"{name}/shape"]),
        helper.make_node("Size", [like], [f"{name}/size"]),
        helper.make_node("Size", [NOISE], [f"{name}/values"]),
        helper.make_node("Add", [start, f"{name}/size"], [f"{name}/stop"]),
        helper.make_node("Range", [start, f"{name}/stop", f"{_PREFIX}/one"], [f"{name}/places"]),
        helper.make_node("Mod", [f"{name}/places", f"{name}/values"], [f"{name}/wrapped"]),
        helper.make_node("Gather", [NOISE, f"{name}/wrapped"], [f"{name}/read"]),
        helper.make_node("Reshape", [f"{name}/read", f"{name}/shape"], [output]),
    ]
    return nodes, f"{name}/stop"
