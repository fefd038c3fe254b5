"""Writes graphs as ONNX."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from tools.training.decoder.network import Network, Size

OPSET = 18
# How much of the voice a difference may be, by their root mean squares: 40 dB below it.
TOLERANCE = 0.01
# Fewer values save less than it takes to load the operator that widens them.
LEAST_HALVED = 1_000


class ExportError(RuntimeError): ...


@dataclass(frozen=True)
class Melody:
    median_hz: float
    log_std: float
    low_hz: float
    high_hz: float

    @classmethod
    def of(cls, log_f0: NDArray[np.float32]) -> "Melody":
        low, median, high = np.exp(np.percentile(log_f0, [0.5, 50, 99.5]))
        return cls(float(median), float(log_f0.std()), float(low), float(high))

    def as_manifest(self) -> dict[str, Any]:
        return {
            "policy": "auto",
            "median_hz": round(self.median_hz, 1),
            "log_std": round(self.log_std, 4),
            "low_hz": round(self.low_hz, 1),
            "high_hz": round(self.high_hz, 1),
        }


def write_graph(
    file: Path,
    graph: torch.nn.Module,
    example: tuple[torch.Tensor, ...],
    *,
    input_names: list[str],
    output_names: list[str],
    dynamic_shapes: Any = None,
    is_table: Callable[[str], bool] = lambda name: not name.startswith("network."),
) -> None:
    """Write a graph, optimised and stripped; large weights that are no tables are halved."""
    torch.onnx.export(
        graph,
        example,
        file,
        input_names=input_names,
        output_names=output_names,
        dynamic_shapes=dynamic_shapes,
        opset_version=OPSET,
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    optimise(file)
    strip(file)
    halve_weights(file, is_table)


def optimise(file: Path) -> None:
    """Computes ahead what is constant, so that whoever loads the graph need not optimise it."""
    options = onnxruntime.SessionOptions()
    # What goes further needs operators that are no standard, or depends on the processor.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(file)
    content = file.read_bytes()
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def strip(file: Path) -> None:
    """Leave out the machine's folders, source lines, inferred shapes and unused operator sets."""
    model = onnx.load(file)
    foreign = {node.domain for node in model.graph.node} - {""}
    if foreign:
        raise ExportError(
            f"{file.name}: expected standard operators alone, found those of {foreign}"
        )
    standard = [one for one in model.opset_import if one.domain == ""]
    del model.opset_import[:]
    model.opset_import.extend(standard)
    model.producer_version = ""
    model.doc_string = ""
    del model.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    del model.graph.value_info[:], model.graph.metadata_props[:]
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, file)


def halve_weights(file: Path, is_table: Callable[[str], bool]) -> None:
    """Store the network's large weights as float16, each widened just before it is used.

    Widening takes no time that could be measured. What is spoken differs 75 dB below the voice; the
    tables of the transforms, where it would be heard first, stay as they are.
    """
    model = onnx.load(file)
    weights = {
        weight.name: onnx.numpy_helper.to_array(weight)
        for weight in model.graph.initializer
        if not is_table(weight.name)
        and weight.data_type == onnx.TensorProto.FLOAT
        and math.prod(weight.dims) >= LEAST_HALVED
    }
    kept = [one for one in model.graph.initializer if one.name not in weights]
    casts = []
    for name, values in weights.items():
        half = f"{name}.half"
        kept.append(onnx.numpy_helper.from_array(values.astype(np.float16), half))
        widened = f"{name}.widen"
        to = onnx.TensorProto.FLOAT
        casts.append(onnx.helper.make_node("Cast", [half], [name], name=widened, to=to))
    # In this order, the runtime widens each just before its use; otherwise all at once, and slower.
    nodes = [*casts, *model.graph.node]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(kept)
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, file)


LEAST_NARROWED = 512 * 512
# With more, sums of two products overflow on processors without instructions for them.
_MOST_NARROW = 63


def narrow_products(file: Path) -> None:
    """Store large matrices of half precision as int8, a scale for each column, and multiply so."""
    model = onnx.load(file)
    values = values_of(model)
    large = {
        node.output[0]: values[node.input[0]].astype(np.float32)
        for node in model.graph.node
        if node.op_type == "Cast" and values.get(node.input[0], np.zeros(0)).size >= LEAST_NARROWED
    }
    made = onnx.helper.make_node
    nodes, narrowed = [], set()
    for node in model.graph.node:
        matrix = large.get(node.input[1]) if node.op_type in {"MatMul", "Gemm"} else None
        if matrix is None:
            nodes.append(node)
            continue
        (x, name, *bias), (result,) = node.input, node.output
        narrowed.add(name)
        scale = np.abs(matrix).max(0) / _MOST_NARROW
        of = f"{name}.narrow.".__add__
        for part, value in (("weight", np.rint(matrix / scale).astype(np.int8)), ("scale", scale)):
            model.graph.initializer.append(numpy_helper.from_array(value, of(part)))
        product = of("product") if bias else result
        nodes += [
            made("DynamicQuantizeLinear", [x], [of("x"), of("x_scale"), of("x_zero")]),
            made("MatMulInteger", [of("x"), of("weight"), of("x_zero")], [of("sum")]),
            made("Cast", [of("sum")], [of("wide")], to=onnx.TensorProto.FLOAT),
            made("Mul", [of("x_scale"), of("scale")], [of("unit")]),
            made("Mul", [of("wide"), of("unit")], [product]),
            *([made("Add", [product, *bias], [result])] if bias else []),
        ]
    kept = [one for one in model.graph.initializer if one.name.removesuffix(_HALF) not in narrowed]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(node for node in nodes if node.output[0] not in narrowed)
    model.graph.initializer.extend(kept)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, file)


def compare_graph(file: Path, inputs: dict[str, NDArray[Any]], expected: torch.Tensor) -> None:
    """Run a graph as the converter does; ExportError if it gives something else."""
    options = onnxruntime.SessionOptions()
    # As the converter runs it: what is checked is what was written.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    found, wanted = np.asarray(session.run(None, inputs)[0]), expected.detach().numpy()
    share = 1.0
    if found.shape == wanted.shape:
        share = float(np.sqrt(((found - wanted) ** 2).mean() / max((wanted**2).mean(), 1e-12)))
    if share > TOLERANCE:
        raise ExportError(
            f"{file.name}: expected {wanted.shape} as in the network, found {found.shape}"
            f" differing by {share:.1%}"
        )


_NETWORK, _STREAM, _HALF = "network.", "stream.", ".half"
_NOT_DECODER = re.compile(r"^(stream\.)?(ear|hearing|network\.head)\.")

Values = dict[str, NDArray[Any]]


def load_network(speaking: Path, size: Size | None = None) -> Network:
    """Read a decoder, without its head, out of a character's graph, with half precision.

    Raises:
        ExportError: the graph holds other weights than such a decoder has.
    """
    model = onnx.load(speaking)
    values = values_of(model)
    state = {
        place_of(name): torch.tensor(value.astype(np.float32))
        for name, value in values.items()
        if _NETWORK in name and not _NOT_DECODER.search(name)
    }
    network = Network(size)
    if network.state_dict().keys() ^ state.keys():
        raise ExportError(f"{speaking.name}: expected the weights of this network, found others")
    network.load_state_dict(
        {name: state[name].reshape(x.shape) for name, x in network.state_dict().items()}
    )
    mean, spread = melody_scale(model)
    network.melody_mean, network.melody_spread = float(values[mean]), float(values[spread])
    return network.eval()


def with_weights(content: bytes, network: Network) -> bytes:
    """Return a graph with another network's weights; ExportError if it is of another kind.

    A graph with a head takes those of `network.head`.
    """
    model = onnx.load_from_string(content)
    values, state = values_of(model), network.state_dict()
    tables = {name for name, _ in network.named_buffers()} - state.keys()
    weights = {name for name in values if _NETWORK in name and place_of(name) not in tables}
    if missing := {place_of(name) for name in weights} - state.keys():
        raise ExportError(f"expected a network with {min(missing)}, found none")
    mean, spread = melody_scale(model)
    new: dict[str, Any] = {mean: network.melody_mean, spread: network.melody_spread}
    new |= {name: state[place_of(name)].numpy() for name in weights}
    for one in model.graph.initializer:
        if one.name in new:
            old = values[one.name]
            value: NDArray[Any] = np.asarray(new[one.name], old.dtype).reshape(old.shape)
            one.CopyFrom(numpy_helper.from_array(value, one.name))
    changed: bytes = model.SerializeToString()
    return changed


def values_of(model: onnx.ModelProto) -> Values:
    return {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}


def place_of(name: str) -> str:
    return name.removeprefix(_STREAM).removeprefix(_NETWORK).removesuffix(_HALF)


def melody_scale(model: onnx.ModelProto) -> tuple[str, str]:
    """The names of what is subtracted from the logarithm of f0, and of what divides the rest."""
    made_by = {node.output[0]: node for node in model.graph.node if node.output}
    for quotient in model.graph.node:
        difference = made_by.get(quotient.input[0]) if quotient.op_type == "Div" else None
        if difference is not None and difference.op_type == "Sub":
            logarithm = made_by.get(difference.input[0])
            if logarithm is not None and logarithm.op_type == "Log":
                return difference.input[1], quotient.input[1]
    raise ExportError("expected a graph that takes a melody, found another")
