"""Small real ONNX graphs."""

from collections.abc import Sequence

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    parser,
)


def tensor(
    name: str, shape: Sequence[int | str | None], kind: int = TensorProto.FLOAT
) -> ValueInfoProto:
    """Describe an input or output."""
    return helper.make_tensor_value_info(name, kind, list(shape))


def model(graph: GraphProto, domains: Sequence[str] = ("",)) -> ModelProto:
    opsets = [helper.make_opsetid(domain, 1 if domain else 18) for domain in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def content(graph: GraphProto) -> bytes:
    return serialized(model(graph))


def serialized(message: ModelProto) -> bytes:
    return bytes(message.SerializeToString())


def graph(text: str, **constants: float | np.ndarray) -> GraphProto:
    """Parse a graph in ONNX's text syntax, and add constants to it."""
    parsed = parser.parse_graph(text)
    for name, value in constants.items():
        array = value if isinstance(value, np.ndarray) else np.array(value, np.float32)
        parsed.initializer.append(numpy_helper.from_array(array, name))
    return parsed


def harmonic_graph(amplitude: float = 0.1, noise: float = 0.0) -> GraphProto:
    """Make a graph of the harmonic contract that speaks a sine with the contract's phase."""
    return graph(
        """
        harmonic (
            float[1,"160*t"] wave, float[1,t] f0, float[1,t] voicing, float[1,"240*t + 240"] noise
        ) => (float[1,"240*t"] audio)
        <
            int64[1] zero = {0}, int64[1] one = {1}, int64[1] last = {-1}, int64[1] hop = {240},
            int64[1] end = {1152921504606846976}, int64[1] axis_2 = {2}, int64[2] flat = {1, -1},
            double rate = {24000}, double turn = {6.283185307179586}
        > {
            first_f0 = Slice(f0, zero, one, one)
            last_f0 = Slice(f0, last, end, one)
            before = Concat <axis=1> (first_f0, f0)
            after = Concat <axis=1> (f0, last_f0)
            from_hz = Unsqueeze(before, axis_2)
            to_hz = Unsqueeze(after, axis_2)
            step = Sub(to_hz, from_hz)
            rise = Mul(step, ramp)
            hz_blocks = Add(from_hz, rise)
            hz = Reshape(hz_blocks, flat)
            hz_64 = Cast <to=11> (hz)
            cycles = Div(hz_64, rate)
            phase = CumSum(cycles, one)
            angle = Mul(phase, turn)
            sine_64 = Sin(angle)
            sine = Cast <to=1> (sine_64)
            tone = Mul(sine, amplitude)
            hiss = Mul(noise, noise_gain)
            all = Add(tone, hiss)
            audio = Slice(all, hop, end, one)
        }
        """,
        ramp=np.arange(240, dtype=np.float32).reshape(1, 1, 240) / 240,
        amplitude=amplitude,
        noise_gain=noise,
    )


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
    """Make a graph from audio to audio at half the rate: means of two samples."""
    return graph(
        """
        waveform (float[1,1,n] audio) => (float[1,1,m] converted) {
            converted = AveragePool <kernel_shape=[2], strides=[2], ceil_mode=1> (audio)
        }
        """
    )


def graph_of(node: NodeProto) -> GraphProto:
    """Make a graph around one node from `x` to `y`."""
    return helper.make_graph([node], "one", [tensor("x", [1, "n"])], [tensor("y", [1, "n"])])
