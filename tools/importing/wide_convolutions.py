"""A voice's decoder, rewritten so that ONNX Runtime computes its convolutions faster.

Exported voices convolve signals of the shape [1, C, T]. For [1, C, 1, T] the runtime blocks the
channels for the processor's vector units; see tools.importing.synthesizer_layers. Only what leads
to the output through convolutions and operators that look at each value alone is rewritten: the
decoder. What comes before decides about durations, where a rounding error could move a phone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from onnx import GraphProto, ModelProto, NodeProto

_CONVOLUTIONS: Final = frozenset({"Conv", "ConvTranspose"})
_OF_EACH_VALUE: Final = frozenset({"LeakyRelu", "Relu", "Tanh"})
_WITH_A_NUMBER: Final = frozenset({"Div", "Mul"})
_RANK: Final = 3
_LEAST_OPSET: Final = 13  # from which Squeeze and Unsqueeze take their axes as an input
_AXIS: Final = "wide/axis"
_LISTS: Final[Mapping[str, int]] = {
    "kernel_shape": 1,
    "dilations": 1,
    "strides": 1,
    "output_padding": 0,
}
"""Attributes with one number for each axis, and that of the axis that is put in."""


def widen_convolutions(model: ModelProto) -> int:
    """Rewrite the convolutions that lead to the output, in place."""
    graph = model.graph
    opset = next((each.version for each in model.opset_import if not each.domain), 0)
    if opset < _LEAST_OPSET:
        return 0
    region = _Region(graph)
    if not region.nodes:
        return 0
    region.rewrite()
    return sum(node.op_type in _CONVOLUTIONS for node in region.nodes)


class _Region:
    """The nodes that are rewritten: those before the output whose signals may get an axis."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._weights = {each.name: each for each in graph.initializer}
        self._numbers = self.find_numbers()
        self.nodes = self.before_the_output(self._able())
        self._made = {node.output[0] for node in self.nodes}

    def rewrite(self) -> None:
        """Give every signal of the region its axis, and take it away where others need it."""
        mine = {id(node) for node in self.nodes}
        asked = [name for node in self._graph.node if id(node) not in mine for name in node.input]
        needed = self._made & {*asked, *(each.name for each in self._graph.output)}
        nodes: list[NodeProto] = []
        entered: set[str] = set()
        for node in self._graph.node:
            if id(node) not in mine:
                nodes.append(node)
                continue
            signals = self._signals(node)
            for name in dict.fromkeys(signals):
                if name not in self._made and name not in entered:
                    entered.add(name)
                    nodes.append(helper.make_node("Unsqueeze", [name, _AXIS], [wide(name)]))
            name = node.output[0]
            self.widen(node, signals)
            nodes.append(node)
            if name in needed:
                nodes.append(helper.make_node("Squeeze", [wide(name), _AXIS], [name]))
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        # What the exporter knew of shapes is not true any more.
        del self._graph.value_info[:]
        self._graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), _AXIS))
        self.drop_unused()

    def _able(self) -> dict[str, NodeProto]:
        """Return the nodes that could be rewritten, by their output."""
        able: dict[str, NodeProto] = {}
        for node in self._graph.node:
            if self.is_able(node, able):
                able[node.output[0]] = node
        return able

    def is_able(self, node: NodeProto, able: Mapping[str, NodeProto]) -> bool:
        if node.domain or len(node.output) != 1 or not node.input:
            return False
        if node.op_type in _CONVOLUTIONS:
            return self.is_plain_convolution(node)
        if node.op_type in _OF_EACH_VALUE:
            return node.input[0] in able
        if node.op_type == "Add":
            return all(name in able for name in node.input)
        if node.op_type in _WITH_A_NUMBER:
            return node.input[0] in able and node.input[-1] in self._numbers
        return False

    def is_plain_convolution(self, node: NodeProto) -> bool:
        weight = self._weights.get(node.input[1]) if len(node.input) > 1 else None
        names = {attribute.name for attribute in node.attribute}
        return (
            weight is not None
            and weight.data_type == TensorProto.FLOAT
            and len(weight.dims) == _RANK
            and node.input[0] not in self._weights
            and all(name in self._weights for name in node.input[2:] if name)
            and names <= {*_LISTS, "pads", "group"}
        )

    def find_numbers(self) -> set[str]:
        """Return the names of the constants without any axis."""
        weights = {name for name, weight in self._weights.items() if not weight.dims}
        constants = {
            node.output[0]
            for node in self._graph.node
            if node.op_type == "Constant" and not any(each.t.dims for each in node.attribute)
        }
        return weights | constants

    def before_the_output(self, able: Mapping[str, NodeProto]) -> list[NodeProto]:
        found: dict[int, NodeProto] = {}
        ahead = [each.name for each in self._graph.output]
        while ahead:
            node = able.get(ahead.pop())
            if node is not None and id(node) not in found:
                found[id(node)] = node
                ahead.extend(node.input)
        return list(found.values())

    def _signals(self, node: NodeProto) -> list[str]:
        """Return the inputs of a node that get an axis."""
        if node.op_type in _CONVOLUTIONS or node.op_type in _WITH_A_NUMBER:
            return [node.input[0]]
        return list(node.input)

    def widen(self, node: NodeProto, signals: Iterable[str]) -> None:
        if node.op_type in _CONVOLUTIONS:
            weight = self._weights[node.input[1]]
            node.input[1] = self.wide_weight(weight)
            widen_attributes(node)
        for index, name in enumerate(signals):
            node.input[index] = wide(name)
        node.output[0] = wide(node.output[0])

    def wide_weight(self, weight: TensorProto) -> str:
        name = wide(weight.name)
        if name not in self._weights:
            value = np.expand_dims(numpy_helper.to_array(weight), 2)
            self._weights[name] = numpy_helper.from_array(value, name)
            self._graph.initializer.append(self._weights[name])
        return name

    def drop_unused(self) -> None:
        used = Counter(name for node in self._graph.node for name in node.input)
        kept = [each for each in self._graph.initializer if used[each.name]]
        del self._graph.initializer[:]
        self._graph.initializer.extend(kept)


def widen_attributes(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.name in _LISTS:
            attribute.ints.insert(0, _LISTS[attribute.name])
        elif attribute.name == "pads":
            first, last = attribute.ints
            attribute.ints[:] = [0, first, 0, last]


def wide(name: str) -> str:
    return f"wide/{name}"
