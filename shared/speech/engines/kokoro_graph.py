"""The graph of Kokoro's decoder that speaks a window of time, made from the packages' network.

The packages' graph convolves channels first, with unsigned weights, and normalises each channel by
its mean and deviation over the whole sentence. Here channels come last, so that a convolution is
one product of matrices with signed weights and with scale and bias inside, and the means and
deviations are those that the voice has in sentences of this length, so that a window of time needs
nothing of the others.
Architecture: StyleTTS 2 (arXiv:2306.07691), decoder of iSTFTNet (arXiv:2203.02395).
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shared.speech.graphs.model_parts import ModelParts
from shared.speech.graphs.onnx_files import bytes_field, number_field
from shared.speech.signal.sound import Samples

DECODER: Final = "/decoder/decoder/"
GENERATOR: Final = f"{DECODER}generator/"
_LARGEST = np.float32(63)  # two products of an unsigned and a signed byte are added in 16 bits
_HALF = 0.5**0.5
_END = np.iinfo(np.int64).max


def decoder_graph(parts: ModelParts, statistics: Mapping[str, Samples]) -> bytes:
    """Write the graph from hidden [T, 512], curves [T, 2], harmonics and style to spectra.

    T are frames of 25 ms; `begin` and `end` are those of the decoder's frames of 12.5 ms that the
    generator takes. Harmonics are [6 + 60 * (end - begin), 22], and spectra [60 * (end - begin),
    22]. The statistics are the means and the logarithms of the deviations [2, lengths, channels]
    by the name of the layer, for sentences of several lengths; `shares` [lengths] weights them.
    """
    return _Decoder(parts, statistics).write()


def floats(parts: ModelParts, name: str) -> Samples:
    """Return the weights of a convolution by its name, float32 [out, in, width]."""
    node = next(each for each in parts.nodes if each.name == f"{name}/Conv_quant")
    zero = parts.tensor(node.inputs[3]).astype(np.float32)
    scale = parts.tensor(node.inputs[1].replace("_quantized", "_scale"))
    return np.asarray((parts.tensor(node.inputs[1]).astype(np.float32) - zero) * scale, np.float32)


def bias_of(parts: ModelParts, name: str) -> Samples:
    named = _dotted(name.replace("/asr_res/asr_res.0", "/asr_res.0"))
    return np.asarray(parts.tensor(f"{named}.bias"), np.float32)


class _Decoder:
    def __init__(self, parts: ModelParts, statistics: Mapping[str, Samples]) -> None:
        self._parts = parts
        self._statistics = statistics
        self._graph = GraphWriter()
        self._convolutions = {
            node.name.removesuffix("/Conv_quant"): node
            for node in parts.nodes
            if node.name.endswith("/Conv_quant") and node.name.startswith(DECODER)
        }
        self._affine: dict[str, tuple[str, str]] = {}

    def write(self) -> bytes:
        add = self._graph.add
        self._write_affine()
        hidden, curves = "hidden", "curves"
        given = self._convolve(hidden, f"{DECODER}asr_res/asr_res.0", bias=True)
        x = self._block(add("Concat", hidden, curves, axis=1), "encode")
        for number in range(4):
            x = self._block(add("Concat", x, given, curves, axis=1), f"decode.{number}")
        x = self._cut(x, "begin", "end")
        for number, width in enumerate((10, 6)):
            noise = self._noise(number)
            x = self._upsample(x, number, width)
            x = add("Add", x, self._residual(noise, f"noise_res.{number}"))
            branches = [
                self._residual(x, f"resblocks.{3 * number + branch}") for branch in range(3)
            ]
            x = add("Mul", add("Add", add("Add", *branches[:2]), branches[2]), self._scalar(1 / 3))
        x = add("LeakyRelu", x, alpha=0.01)
        weights = self._parts.tensor(f"{GENERATOR}Mul_2_output_0")
        spectra = add("MatMul", self._taps(x, 7, 1), self._constant(_columns(weights)))
        bias = self._constant(bias_of(self._parts, f"{GENERATOR}conv_post"))
        add("Add", spectra, bias, outputs=["spectra"])
        return self._graph.model(
            {"hidden": (np.float32, 2), "curves": (np.float32, 2), "harmonics": (np.float32, 2)}
            | {"style": (np.float32, 2), "shares": (np.float32, 1)}
            | {"begin": (np.int64, 1), "end": (np.int64, 1)},
            ["spectra"],
        )

    def _write_affine(self) -> None:
        """Write a factor and an addend for each channel, of the style and the statistics."""
        kinds = ["weight_quantized", "weight_scale", "bias"]
        names = list(self._statistics)
        named = [f"{_dotted(name)}.fc" for name in names]
        weights, scales, biases = (
            [self._parts.tensor(f"{each}.{kind}") for each in named] for kind in kinds
        )
        sizes = [len(each) // 2 for each in biases]
        signed = self._graph.constant(np.concatenate(weights, axis=1))
        self._graph.add("DynamicQuantizeLinear", "style", outputs=["qs", "ss", "zs"])
        scale, addend = (self._constant(np.concatenate(each)) for each in (scales, biases))
        inputs = ["qs", signed, "ss", scale, "zs", "", addend]
        style = self._graph.add("MatMulIntegerToFloat", *inputs, domain=MICROSOFT)
        style = self._graph.add("Squeeze", style, self._graph.constant([0]))
        outputs = [f"{kind}{name}" for name in names for kind in ("factor", "addend")]
        lengths = self._graph.constant([size for size in sizes for _ in range(2)])
        self._graph.add("Split", style, lengths, axis=0, outputs=outputs)
        means, deviations = np.concatenate(list(self._statistics.values()), axis=2)
        found = self._graph.add("MatMul", "shares", self._constant(means))
        factors = self._graph.add("MatMul", "shares", self._constant(-deviations))
        sizes_of_names = self._graph.constant(sizes)
        for kind, each in ("mean", found), ("scale", self._graph.add("Exp", factors)):
            outputs = [f"{kind}{name}" for name in names]
            self._graph.add("Split", each, sizes_of_names, axis=0, outputs=outputs)
        for name in names:
            factor = self._graph.add("Add", f"factor{name}", self._scalar(1.0))
            factor = self._graph.add("Mul", factor, f"scale{name}")
            moved = self._graph.add("Mul", factor, f"mean{name}")
            self._affine[name] = factor, self._graph.add("Sub", f"addend{name}", moved)

    def _block(self, x: str, name: str) -> str:
        add, name = self._graph.add, f"{DECODER}{name}"
        is_last = name.endswith("decode.3")
        direct = self._convolve(x, f"{name}/conv1x1")
        y = add("LeakyRelu", self._normalise(x, f"{name}/norm1"), alpha=0.2)
        if is_last:
            direct, y = self._interleave(direct, direct), self._pool(y, name)
        y = self._convolve(y, f"{name}/conv1", bias=True, norm=f"{name}/norm2")
        y = self._convolve(add("LeakyRelu", y, alpha=0.2), f"{name}/conv2", bias=True)
        return add("Mul", add("Add", y, direct), self._scalar(_HALF))

    def _pool(self, x: str, name: str) -> str:
        add = self._graph.add
        before, here, after = self._parts.tensor(f"{name}/Mul_output_0")[:, 0].T
        bias = self._constant(self._parts.tensor(f"{_dotted(name)}.pool.bias"))
        following = add("Pad", self._cut_at(x, 1, _END), self._graph.constant([0, 0, 1, 0]))
        odd = add("Mul", x, self._constant(after))
        odd = add("Add", odd, add("Mul", following, self._constant(before)))
        even = add("Mul", x, self._constant(here))
        return self._interleave(add("Add", even, bias), add("Add", odd, bias))

    def _interleave(self, even: str, odd: str) -> str:
        """Take the frames of two tensors [T, C] in turns."""
        size = self._graph.add("Shape", even, start=1)
        shape = self._graph.add("Concat", self._graph.constant([-1]), size, axis=0)
        return self._graph.add("Reshape", self._graph.add("Concat", even, odd, axis=1), shape)

    def _upsample(self, x: str, number: int, width: int) -> str:
        """Transposed convolution: each of `width` frames hears two of the frames before it."""
        add = self._graph.add
        x = add("LeakyRelu", x, alpha=0.1)
        weights = self._parts.tensor(f"{GENERATOR}Mul{'_1' * number}_output_0")
        inputs, outputs, _ = weights.shape
        both = [
            each.transpose(0, 2, 1).reshape(inputs, width * outputs)
            for each in (weights[:, :, width:], weights[:, :, :width])
        ]
        x = self._taps(x, 2, 1)
        x = add("MatMul", x, self._constant(np.concatenate(both)))
        x = add("Reshape", x, self._graph.constant([-1, outputs]))
        x = self._cut_at(x, width // 2, -(width // 2))
        return add("Add", x, self._constant(bias_of(self._parts, f"{GENERATOR}ups.{number}")))

    def _noise(self, number: int) -> str:
        name = f"{GENERATOR}noise_convs.{number}"
        weights = floats(self._parts, name)
        if number:
            x = self._cut_at("harmonics", 4, -2)
        else:
            shape = self._graph.constant([-1, 6 * weights.shape[1]])
            x = self._graph.add("Reshape", "harmonics", shape)
            x = self._graph.add("Concat", self._cut_at(x, 0, -1), self._cut_at(x, 1, _END), axis=1)
        x = self._graph.add("MatMul", x, self._constant(_columns(weights)))
        return self._graph.add("Add", x, self._constant(bias_of(self._parts, name)))

    def _residual(self, x: str, name: str) -> str:
        name = f"{GENERATOR}{name}"
        for number, dilation in enumerate((1, 3, 5)):
            y = self._normalise(x, f"{name}/adain1.{number}")
            y = self._snake(y, f"{name}/alpha1.{number}")
            second = f"{name}/adain2.{number}"
            y = self._convolve(
                y, f"{name}/convs1.{number}", dilation=dilation, bias=True, norm=second
            )
            y = self._snake(y, f"{name}/alpha2.{number}")
            y = self._convolve(y, f"{name}/convs2.{number}", bias=True)
            x = self._graph.add("Add", x, y)
        return x

    def _normalise(self, x: str, name: str) -> str:
        factor, addend = self._affine[name]
        return self._graph.add("Add", self._graph.add("Mul", x, factor), addend)

    def _snake(self, x: str, name: str) -> str:
        add = self._graph.add
        alpha = self._parts.tensor(_dotted(name)).ravel()
        wave = add("Sin", add("Mul", x, self._constant(alpha)))
        wave = add("Mul", add("Mul", wave, wave), self._constant(1 / (alpha + np.float32(1e-9))))
        return add("Add", x, wave)

    def _convolve(
        self, x: str, name: str, *, dilation: int = 1, bias: bool = False, norm: str = ""
    ) -> str:
        """Convolve with signed bytes, one scale for each output; `norm` is applied within."""
        add = self._graph.add
        columns, scale, width = self._signed(name)
        signed = self._graph.constant(columns)
        named = f"q{signed}"
        add("DynamicQuantizeLinear", x, outputs=[named, f"s{named}", f"z{named}"])
        taps = self._taps(named, width, dilation, f"z{named}")
        factor, addend = self._constant(scale), ""
        if bias:
            addend = self._constant(bias_of(self._parts, name))
        if norm:
            more, shift = self._affine[norm]
            factor, addend = add("Mul", factor, more), add("Add", add("Mul", addend, more), shift)
        inputs = [taps, signed, f"s{named}", factor, f"z{named}", "", addend]
        return add("MatMulIntegerToFloat", *inputs[: None if addend else 5], domain=MICROSOFT)

    def _signed(self, name: str) -> tuple[NDArray[np.int8], Samples, int]:
        """Return signed weights [width * in, out], their scales [out], and the width."""
        node = self._convolutions[name]
        weights = self._parts.tensor(node.inputs[1])
        columns = _columns(weights).astype(np.int16) - self._parts.tensor(node.inputs[3])
        peaks = np.maximum(np.abs(columns).max(axis=0), 1).astype(np.float32)
        finer = np.minimum(_LARGEST / peaks, np.float32(1))
        if (finer < 1).any():
            columns = np.rint(columns * finer)
        scale = self._parts.tensor(node.inputs[1].replace("_quantized", "_scale")) / finer
        return columns.astype(np.int8), scale, weights.shape[2]

    def _taps(self, x: str, width: int, dilation: int, zero: str = "") -> str:
        """Put what a convolution hears side by side: [T, width * C], and [T + 1, 2 * C] for two."""
        if width == 1:
            return x
        around = max(width // 2 * dilation, 1)
        padding = self._graph.constant([around, 0, around, 0])
        padded = self._graph.add("Pad", x, padding, *([zero] if zero else []))
        places = self._graph.constant([[dilation * each for each in range(width)]])
        frames = self._graph.add("Squeeze", self._graph.add("Shape", padded, end=1))
        frames = self._graph.add("Sub", frames, self._integer((width - 1) * dilation))
        begins = self._graph.add("Range", self._integer(0), frames, self._integer(1))
        begins = self._graph.add("Unsqueeze", begins, self._graph.constant([1]))
        heard = self._graph.add("Gather", padded, self._graph.add("Add", begins, places))
        return self._graph.add("Reshape", heard, self._graph.constant([0, -1]))

    def _cut_at(self, x: str, begin: int, end: int) -> str:
        return self._cut(x, self._graph.constant([begin]), self._graph.constant([end]))

    def _cut(self, x: str, begin: str, end: str) -> str:
        return self._graph.add("Slice", x, begin, end, self._graph.constant([0]))

    def _integer(self, value: int) -> str:
        return self._graph.constant(np.array(value, np.int64))

    def _constant(self, values: NDArray[Any]) -> str:
        return self._graph.constant(np.asarray(values, np.float32))

    def _scalar(self, value: float) -> str:
        return self._constant(np.array(value, np.float32))


def _columns(weights: NDArray[Any]) -> NDArray[Any]:
    """Bring weights [out, in, width] into the form [width * in, out]."""
    return np.ascontiguousarray(weights.transpose(2, 1, 0).reshape(-1, len(weights)))


def _dotted(name: str) -> str:
    return name.lstrip("/").replace("/", ".")


MICROSOFT: Final = "com.microsoft"
_IR_VERSION, _OPSET = 9, 20
_FLOAT, _INT, _INTS = 1, 2, 7
_TYPES: Final = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int8): 3} | {
    np.dtype(np.int64): 7
}


class GraphWriter:
    """Writes a graph without the ONNX library, which the container does not have.

    Field numbers are those of onnx.proto of ONNX 1.17.
    """

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def add(
        self,
        operator: str,
        *inputs: str,
        domain: str = "",
        outputs: Sequence[str] = (),
        **attributes: float | Sequence[int],
    ) -> str:
        """Add a node; return the name of its first output."""
        names = list(outputs) or [f"n{len(self._nodes)}"]
        fields = [bytes_field(1, name.encode()) for name in inputs]
        fields += [bytes_field(2, name.encode()) for name in names]
        fields += [bytes_field(4, operator.encode()), bytes_field(7, domain.encode())]
        fields += [bytes_field(5, _attribute(*each)) for each in attributes.items()]
        self._nodes.append(bytes_field(1, b"".join(fields)))
        return names[0]

    def constant(self, values: NDArray[Any] | Sequence[int] | Sequence[Sequence[int]]) -> str:
        """Add a tensor of float32, uint8, int8 or int64; return its name."""
        array = np.ascontiguousarray(values)
        name = f"c{len(self._constants)}"
        fields = [number_field(1, size) for size in array.shape]
        fields += [number_field(2, _TYPES[array.dtype]), bytes_field(8, name.encode())]
        fields.append(bytes_field(9, array.tobytes()))
        self._constants.append(bytes_field(5, b"".join(fields)))
        return name

    def model(
        self, inputs: Mapping[str, tuple[type[np.generic], int]], outputs: Sequence[str]
    ) -> bytes:
        """Return the model; of each input the type and the number of its dimensions."""
        graph = [*self._nodes, bytes_field(2, b"graph"), *self._constants]
        for name, (kind, rank) in inputs.items():
            shape = b"".join(bytes_field(1, b"") for _ in range(rank))
            tensor = number_field(1, _TYPES[np.dtype(kind)]) + bytes_field(2, shape)
            described = bytes_field(1, name.encode()) + bytes_field(2, bytes_field(1, tensor))
            graph.append(bytes_field(11, described))
        graph += [bytes_field(12, bytes_field(1, name.encode())) for name in outputs]
        versions = [(b"", _OPSET), (MICROSOFT.encode(), 1)]
        return b"".join(
            [
                number_field(1, _IR_VERSION),
                bytes_field(7, b"".join(graph)),
                *(bytes_field(8, bytes_field(1, a) + number_field(2, b)) for a, b in versions),
            ]
        )


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    begin = bytes_field(1, name.encode())
    if isinstance(value, float):
        return begin + b"\x15" + struct.pack("<f", value) + number_field(20, _FLOAT)
    if isinstance(value, int):
        return begin + number_field(3, value) + number_field(20, _INT)
    return begin + b"".join(number_field(8, each) for each in value) + number_field(20, _INTS)
