"""Changes to a foreign ONNX graph: nodes put in, inputs renamed, inputs made constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


class EditedGraph:
    """A graph that is being changed.

    Args:
        model: which is changed in place.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self._added = 0
        self._first = 0
        # What the exporter knew of the shapes in between may be wrong after a change.
        del self._graph.value_info[:]

    @property
    def nodes(self) -> Sequence[onnx.NodeProto]:
        """The nodes of the main graph, in order."""
        return self._graph.node

    def input(self, name: str) -> onnx.ValueInfoProto | None:
        """Return an input."""
        return next((each for each in self._graph.input if each.name == name), None)

    def outputs(self) -> Sequence[onnx.ValueInfoProto]:
        """Return the outputs."""
        return self._graph.output

    def producer(self, tensor: str) -> onnx.NodeProto | None:
        """Return the node that makes a tensor."""
        return next((node for node in self._graph.node if tensor in node.output), None)

    def consumers(self, tensor: str) -> list[onnx.NodeProto]:
        """Return the nodes of the main graph that take a tensor."""
        return [node for node in self._graph.node if tensor in node.input]

    def value(self, tensor: str) -> NDArray[Any] | None:
        """Return a constant tensor's value."""
        for initializer in self._graph.initializer:
            if initializer.name == tensor:
                return numpy_helper.to_array(initializer)
        node = self.producer(tensor)
        if node is not None and node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    return numpy_helper.to_array(attribute.t)
        return None

    def constant(self, value: NDArray[Any]) -> str:
        """Add a constant."""
        name = self.reserve()
        self._graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def insert(self, before: onnx.NodeProto, kind: str, *inputs: str, **options: Any) -> str:
        """Add a node with one output in front of another one."""
        at = next(number for number, node in enumerate(self._graph.node) if node is before)
        return self._add(at, self.reserve(), kind, inputs, options)

    def prepend(self, kind: str, *inputs: str, output: str | None = None, **options: Any) -> str:
        """Add a node with one output in front of all but those that were added like this."""
        self._first += 1
        return self._add(self._first - 1, output or self.reserve(), kind, inputs, options)

    def append(self, output: str, kind: str, *inputs: str, **options: Any) -> str:
        """Add a node with one output behind all others."""
        return self._add(len(self._graph.node), output, kind, inputs, options)

    def _add(
        self, at: int, output: str, kind: str, inputs: Sequence[str], options: dict[str, Any]
    ) -> str:
        name = f"{output}_node"
        node = helper.make_node(kind, list(inputs), [output], name=name, **options)
        self._graph.node.insert(at, node)
        return output

    def reserve(self) -> str:
        """Return a name that no tensor has."""
        self._added += 1
        return f"imported/{self._added}"

    def free(self, name: str) -> None:
        """Give a tensor inside of the graph another name, if it has this one."""
        initializers = [each for each in self._graph.initializer if each.name == name]
        nodes = [node for node in _all_nodes(self._graph) if name in node.output]
        if initializers or nodes:
            other = self.reserve()
            self.redirect(name, other)
            for initializer in initializers:
                initializer.name = other
            for node in nodes:
                node.output[list(node.output).index(name)] = other

    def remove(self, node: onnx.NodeProto) -> None:
        """Take a node away."""
        self._graph.node.remove(node)

    def redirect(self, old: str, new: str) -> None:
        """Let every node that takes a tensor take another one, in inner graphs, too."""
        for node in _all_nodes(self._graph):
            for at, name in enumerate(node.input):
                if name == old:
                    node.input[at] = new
        for graph in _all_graphs(self._graph):
            if graph is not self._graph:
                for output in graph.output:
                    output.name = new if output.name == old else output.name

    def replace_inputs(self, inputs: Sequence[onnx.ValueInfoProto]) -> None:
        """Declare other inputs than before."""
        del self._graph.input[:]
        self._graph.input.extend(inputs)

    def replace_outputs(self, outputs: Sequence[onnx.ValueInfoProto]) -> None:
        """Declare other outputs than before."""
        del self._graph.output[:]
        self._graph.output.extend(outputs)


def _all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those inside of its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _all_graphs(attribute.g)
            for inner in attribute.graphs:
                yield from _all_graphs(inner)


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for each in _all_graphs(graph):
        yield from each.node


def widen_half_precision(model: onnx.ModelProto) -> bool:
    """Turn everything of half precision into single precision; return whether there was any.

    Processors compute in single precision anyway, and the runtime would convert to and fro.
    """
    count = 0
    for graph in _all_graphs(model.graph):
        for tensor in graph.initializer:
            count += _widen_tensor(tensor)
        for value in (*graph.input, *graph.output, *graph.value_info):
            kind = value.type.tensor_type
            count += kind.elem_type == onnx.TensorProto.FLOAT16
            kind.elem_type = _widened(kind.elem_type)
        for node in graph.node:
            count += sum(_widen_attribute(node, attribute) for attribute in node.attribute)
    return count > 0


def _widened(kind: int) -> int:
    return onnx.TensorProto.FLOAT if kind == onnx.TensorProto.FLOAT16 else kind


def _widen_attribute(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> int:
    if attribute.type == AttributeProto.TENSOR:
        return _widen_tensor(attribute.t)
    is_type = attribute.name == "dtype" or (node.op_type == "Cast" and attribute.name == "to")
    if is_type and attribute.i == onnx.TensorProto.FLOAT16:
        attribute.i = onnx.TensorProto.FLOAT
        return 1
    return 0


def _widen_tensor(tensor: onnx.TensorProto) -> int:
    if tensor.data_type != onnx.TensorProto.FLOAT16:
        return 0
    value = numpy_helper.to_array(tensor).astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return 1
