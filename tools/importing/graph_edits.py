"""Changes to a foreign ONNX graph: nodes put in, inputs renamed, inputs made constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from shared.runtime.quoting import quoted
from tools.bundles.files import VoiceFileError
from tools.importing.graph_builder import DOUBLE, FLOAT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray


class EditedGraph:
    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self._added = 0
        self._first = 0
        # What the exporter knew of the shapes in between may be wrong after a change.
        del self._graph.value_info[:]

    @property
    def nodes(self) -> Sequence[onnx.NodeProto]:
        return self._graph.node

    def input(self, name: str) -> onnx.ValueInfoProto | None:
        return next((each for each in self._graph.input if each.name == name), None)

    def outputs(self) -> Sequence[onnx.ValueInfoProto]:
        return self._graph.output

    def producer(self, tensor: str) -> onnx.NodeProto | None:
        return next((node for node in self._graph.node if tensor in node.output), None)

    def consumers(self, tensor: str) -> list[onnx.NodeProto]:
        """Return the nodes of the main graph that take a tensor."""
        return [node for node in self._graph.node if tensor in node.input]

    def value(self, tensor: str) -> NDArray[Any] | None:
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
        name = self.reserve()
        self._graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def insert(self, before: onnx.NodeProto, kind: str, *inputs: str, **options: Any) -> str:
        at = next(number for number, node in enumerate(self._graph.node) if node is before)
        return self.add(at, self.reserve(), kind, inputs, options)

    def prepend(self, kind: str, *inputs: str, output: str | None = None, **options: Any) -> str:
        """Add a node with one output in front of all but those that were added like this."""
        self._first += 1
        return self.add(self._first - 1, output or self.reserve(), kind, inputs, options)

    def append(self, output: str, kind: str, *inputs: str, **options: Any) -> str:
        return self.add(len(self._graph.node), output, kind, inputs, options)

    def add(
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
        nodes = [node for node in all_nodes(self._graph) if name in node.output]
        if initializers or nodes:
            other = self.reserve()
            self.redirect(name, other)
            for initializer in initializers:
                initializer.name = other
            for node in nodes:
                node.output[list(node.output).index(name)] = other

    def remove(self, node: onnx.NodeProto) -> None:
        self._graph.node.remove(node)

    def redirect(self, old: str, new: str) -> None:
        """Let every node that takes a tensor take another one, in inner graphs, too."""
        for node in all_nodes(self._graph):
            for at, name in enumerate(node.input):
                if name == old:
                    node.input[at] = new
        for graph in all_graphs(self._graph):
            if graph is not self._graph:
                for output in graph.output:
                    output.name = new if output.name == old else output.name

    def replace_inputs(self, inputs: Sequence[onnx.ValueInfoProto]) -> None:
        del self._graph.input[:]
        self._graph.input.extend(inputs)

    def replace_outputs(self, outputs: Sequence[onnx.ValueInfoProto]) -> None:
        del self._graph.output[:]
        self._graph.output.extend(outputs)


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those inside of its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from all_graphs(attribute.g)
            for inner in attribute.graphs:
                yield from all_graphs(inner)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for each in all_graphs(graph):
        yield from each.node


def widen_half_precision(model: onnx.ModelProto) -> bool:
    """Turn everything of half precision into single precision; return whether there was any.

    Processors compute in single precision anyway, and the runtime would convert to and fro.
    """
    count = 0
    for graph in all_graphs(model.graph):
        for tensor in graph.initializer:
            count += widen_tensor(tensor)
        for value in (*graph.input, *graph.output, *graph.value_info):
            kind = value.type.tensor_type
            count += kind.elem_type == onnx.TensorProto.FLOAT16
            kind.elem_type = widened(kind.elem_type)
        for node in graph.node:
            count += sum(widen_attribute(node, attribute) for attribute in node.attribute)
    return count > 0


def widened(kind: int) -> int:
    return onnx.TensorProto.FLOAT if kind == onnx.TensorProto.FLOAT16 else kind


def widen_attribute(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> int:
    if attribute.type == AttributeProto.TENSOR:
        return widen_tensor(attribute.t)
    is_type = attribute.name == "dtype" or (node.op_type == "Cast" and attribute.name == "to")
    if is_type and attribute.i == onnx.TensorProto.FLOAT16:
        attribute.i = onnx.TensorProto.FLOAT
        return 1
    return 0


def widen_tensor(tensor: onnx.TensorProto) -> int:
    if tensor.data_type != onnx.TensorProto.FLOAT16:
        return 0
    value = numpy_helper.to_array(tensor).astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return 1


_FARTHEST = 6


def repair_phase(graph: EditedGraph) -> bool:
    """Let every running sum over samples run in double precision; return whether there was one."""
    repaired = False
    for node in list(graph.nodes):
        if node.op_type == "CumSum":
            increments = _increments(graph, node)
            if increments is not None:
                replace(graph, node, increments)
                repaired = True
    return repaired


def _increments(graph: EditedGraph, running_sum: onnx.NodeProto) -> str | None:
    """Return the tensor of every sample's turn, if that is what is summed up with a correction."""
    summed = graph.producer(running_sum.input[0])
    if summed is None or summed.op_type != "Add":
        return None
    return next((name for name in summed.input if is_enlarged(graph, name)), None)


def is_enlarged(graph: EditedGraph, tensor: str) -> bool:
    """Return whether a tensor repeats frames for every sample."""
    for _ in range(_FARTHEST):
        node = graph.producer(tensor)
        if node is None:
            return False
        if node.op_type in {"Resize", "Upsample"}:
            modes = [each.s for each in node.attribute if each.name == "mode"]
            return modes in ([], [b"nearest"])
        if node.op_type not in {"Transpose", "Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze"}:
            return False
        tensor = node.input[0]
    return False


def replace(graph: EditedGraph, running_sum: onnx.NodeProto, increments: str) -> None:
    exact = graph.insert(running_sum, "Cast", increments, to=DOUBLE)
    total = graph.insert(running_sum, "CumSum", exact, running_sum.input[1])
    one = graph.constant(np.array(1.0, np.float64))
    turns = graph.insert(running_sum, "Mod", total, one, fmod=1)
    phase = graph.insert(running_sum, "Cast", turns, to=FLOAT)
    graph.redirect(running_sum.output[0], phase)
    graph.remove(running_sum)


_NORMAL = frozenset({"RandomNormal", "RandomNormalLike"})
_UNIFORM = frozenset({"RandomUniform", "RandomUniformLike"})


def random_outputs(graph: EditedGraph) -> list[str]:
    return [node.output[0] for node in graph.nodes if node.op_type in _NORMAL | _UNIFORM]


def replace_random_nodes(
    graph: EditedGraph, shapes: Mapping[str, Sequence[int]], frames: int, samples: int
) -> tuple[int, int]:
    """Let the graph take `rnd` and `noise` where it draws numbers itself.

    Return the channels of the prior's noise and the harmonics of the source's; 0 if it drew none.
    """
    channels, harmonics = 0, 0
    for node in list(graph.nodes):
        if node.op_type not in _NORMAL | _UNIFORM:
            continue
        shape = tuple(shapes[node.output[0]])
        if node.op_type in _UNIFORM and np.prod(shape, dtype=np.int64) < frames:
            random_nodes_replace(graph, node, graph.constant(np.zeros(shape, np.float32)))
        elif node.op_type in _NORMAL and shape[:1] + shape[2:] == (1, frames) and not channels:
            random_nodes_replace(graph, node, unscaled(graph, node))
            channels = shape[-2]
        elif node.op_type in _NORMAL and shape[:2] == (1, samples) and not harmonics:
            random_nodes_replace(graph, node, "noise")
            harmonics = shape[2] if len(shape) > 2 else 1  # noqa: PLR2004 - beyond [1, N]
        else:
            raise VoiceFileError(
                f"expected the random numbers of an RVC voice, found {quoted(node.op_type)}"
                f" of the shape {quoted(str(list(shape)))}."
            )
    return channels, harmonics


def random_nodes_replace(graph: EditedGraph, node: onnx.NodeProto, tensor: str) -> None:
    graph.redirect(node.output[0], tensor)
    graph.remove(node)


def unscaled(graph: EditedGraph, node: onnx.NodeProto) -> str:
    """Return the input `rnd`, of which the graph's own factor is taken away again.

    The contract's noise comes scaled; an export that draws it scales it, too.
    """
    factor = _factor(graph, node.output[0])
    if factor is None:
        return "rnd"
    return graph.prepend("Mul", "rnd", graph.constant(np.array(1 / factor, np.float32)))


def _factor(graph: EditedGraph, tensor: str, steps: int = 2) -> float | None:
    """Return the constant that a tensor is multiplied by, at once or one product later."""
    for node in graph.consumers(tensor) if steps else ():
        if node.op_type != "Mul":
            continue
        for name in node.input:
            value = graph.value(name) if name != tensor else None
            if value is not None and value.size == 1 and value.item():
                return float(value.item())
        return _factor(graph, node.output[0], steps - 1)
    return None
