"""Small real ONNX graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

HOP = 240
RATE = 24_000
OPSET = 18


def tensor(
    name: str, shape: Sequence[int | str | None], kind: int = TensorProto.FLOAT
) -> ValueInfoProto:
    """Describe an input or output."""
    return helper.make_tensor_value_info(name, kind, list(shape))


def model(graph: GraphProto, domains: Sequence[str] = ("",)) -> ModelProto:
    """Make a model of a graph."""
    opsets = [helper.make_opsetid(domain, OPSET if not domain else 1) for domain in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def content(graph: GraphProto) -> bytes:
    """Make the bytes of a model of a graph."""
    return serialized(model(graph))


def serialized(message: ModelProto) -> bytes:
    """Make the bytes of a model."""
    return bytes(message.SerializeToString())


def harmonic_graph(amplitude: float = 0.1, noise: float = 0.0) -> GraphProto:
    """Make a graph of the harmonic contract that speaks a sine with the contract's phase."""
    constants: dict[str, NDArray[Any]] = {
        "ramp": np.arange(HOP, dtype=np.float32).reshape(1, 1, HOP) / HOP,
        "rate": np.array(RATE, np.float64),
        "turn": np.array(2 * np.pi, np.float64),
        "amplitude": np.array(amplitude, np.float32),
        "noise_gain": np.array(noise, np.float32),
        "zero": np.array([0]),
        "one": np.array([1]),
        "last": np.array([-1]),
        "hop": np.array([HOP]),
        "end": np.array([2**60]),
        "axis": np.array([1]),
        "axis_2": np.array([2]),
        "flat": np.array([1, -1]),
    }
    nodes = [
        helper.make_node("Slice", ["f0", "zero", "one", "axis"], ["first_f0"]),
        helper.make_node("Slice", ["f0", "last", "end", "axis"], ["last_f0"]),
        helper.make_node("Concat", ["first_f0", "f0"], ["before"], axis=1),
        helper.make_node("Concat", ["f0", "last_f0"], ["after"], axis=1),
        helper.make_node("Unsqueeze", ["before", "axis_2"], ["from_hz"]),
        helper.make_node("Unsqueeze", ["after", "axis_2"], ["to_hz"]),
        helper.make_node("Sub", ["to_hz", "from_hz"], ["step"]),
        helper.make_node("Mul", ["step", "ramp"], ["rise"]),
        helper.make_node("Add", ["from_hz", "rise"], ["hz_blocks"]),
        helper.make_node("Reshape", ["hz_blocks", "flat"], ["hz"]),
        helper.make_node("Cast", ["hz"], ["hz_64"], to=TensorProto.DOUBLE),
        helper.make_node("Div", ["hz_64", "rate"], ["cycles"]),
        helper.make_node("CumSum", ["cycles", "one_axis"], ["phase"]),
        helper.make_node("Mul", ["phase", "turn"], ["angle"]),
        helper.make_node("Cast", ["angle"], ["angle_64"], to=TensorProto.DOUBLE),
        helper.make_node("Sin", ["angle_64"], ["sine_64"]),
        helper.make_node("Cast", ["sine_64"], ["sine"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["sine", "amplitude"], ["tone"]),
        helper.make_node("Mul", ["noise", "noise_gain"], ["hiss"]),
        helper.make_node("Add", ["tone", "hiss"], ["all"]),
        helper.make_node("Slice", ["all", "hop", "end", "axis"], ["audio"]),
    ]
    constants["one_axis"] = np.array(1)
    return helper.make_graph(
        nodes,
        "harmonic",
        harmonic_inputs(),
        [tensor("audio", [1, "240*t"])],
        initializer=[numpy_helper.from_array(value, name) for name, value in constants.items()],
    )


def harmonic_inputs() -> list[ValueInfoProto]:
    """Describe the inputs of the harmonic contract."""
    return [
        tensor("wave", [1, "160*t"]),
        tensor("f0", [1, "t"]),
        tensor("voicing", [1, "t"]),
        tensor("noise", [1, "240*t + 240"]),
    ]


def gain_graph(gain: float, shape: Sequence[int | str | None] = (1, "n")) -> GraphProto:
    """Make a graph from audio to audio that only changes the gain."""
    return helper.make_graph(
        [helper.make_node("Mul", ["audio", "gain"], ["converted"])],
        "waveform",
        [tensor("audio", shape)],
        [tensor("converted", shape)],
        initializer=[numpy_helper.from_array(np.array(gain, np.float32), "gain")],
    )


def half_rate_graph() -> GraphProto:
    """Make a graph from audio to audio at half the rate: means of two samples, [1, 1, N]."""
    pool = helper.make_node(
        "AveragePool", ["audio"], ["converted"], kernel_shape=[2], strides=[2], ceil_mode=1
    )
    return helper.make_graph(
        [pool], "waveform", [tensor("audio", [1, 1, "n"])], [tensor("converted", [1, 1, "m"])]
    )


def graph_of(node: NodeProto) -> GraphProto:
    """Make a graph around one node from `x` to `y`."""
    return helper.make_graph([node], "one", [tensor("x", [1, "n"])], [tensor("y", [1, "n"])])
