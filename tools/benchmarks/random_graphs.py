"""Networks of the size of real ones, with random weights: ContentVec, and an RVC voice of 40 kHz.

Only their speed is real. The layers, their order and their sizes are those of the published
networks: HuBERT base (Hsu et al., 2021), the text encoder and the flow of VITS (Kim et al., 2021),
HiFi-GAN (Kong et al., 2020). The text encoder's attention leaves out the relative positions, which
are a small part of a small part.
"""

from __future__ import annotations

import json
import math
import shutil
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from infra.local.configuration.options import ROOT
from shared.characters.manifest import MANIFEST
from tools.bundles.writer import entry, preview, write_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


OPSET: Final = 18
CONTENT_CHANNELS: Final = 768
SAMPLE_RATE: Final = 40_000
UPSAMPLE_RATES: Final = (10, 10, 2, 2)
UPSAMPLE_KERNELS: Final = (16, 16, 4, 4)
UPSAMPLE_CHANNELS: Final = 512
BLOCK_KERNELS: Final = (3, 7, 11)
BLOCK_DILATIONS: Final = (1, 3, 5)
STEM: Final = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))
"""Kernel and stride of the convolutions with which ContentVec begins."""
STEM_CHANNELS: Final = 512
LAYERS, HEADS, FEED_FORWARD = 12, 12, 3_072
POSITION_KERNEL, POSITION_GROUPS = 128, 16

_INTER, _FILTER, _VOICE_LAYERS, _VOICE_HEADS = 192, 768, 6, 2
_FLOWS, _FLOW_LAYERS, _FLOW_KERNEL = 4, 3, 5
_SLOPE = 0.1


class Sketch:
    """A graph with random weights that grows node by node.

    Args:
        rank: 3 for signals [1, C, T], 4 for [1, C, 1, T].
    """

    def __init__(self, rank: int = 3) -> None:
        self.rank = rank
        self._random = np.random.default_rng(0)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: NDArray[Any]) -> str:
        """Add a constant."""
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def sizes(self, *values: int) -> str:
        """Add an int64 vector."""
        return self.constant(np.array(values, np.int64))

    def drawn(self, *shape: int, fan_in: int, gain: float = 1.0) -> str:
        """Add random weights that keep the size of what passes through them."""
        weights = self._random.standard_normal(shape, np.float32)
        return self.constant(weights * np.float32(gain / math.sqrt(fan_in)))

    def linear(self, x: str, before: int, after: int) -> str:
        """Multiply [..., before] with a matrix and add a bias."""
        product = self.node("MatMul", x, self.drawn(before, after, fan_in=before))
        return self.node("Add", product, self.constant(np.zeros(after, np.float32)))

    def convolution(
        self,
        x: str,
        before: int,
        after: int,
        kernel: int,
        *,
        dilation: int = 1,
        stride: int = 1,
        groups: int = 1,
        padding: int | None = None,
    ) -> str:
        """Convolve over time; without padding given, the length stays."""
        reach = (kernel - 1) * dilation
        first = reach // 2 if padding is None else padding
        last = reach - reach // 2 if padding is None else padding
        shape = (after, before // groups, *self._flat(kernel, 1))
        weight = self.drawn(*shape, fan_in=kernel * before // groups)
        return self.node(
            "Conv",
            x,
            weight,
            self.constant(np.zeros(after, np.float32)),
            kernel_shape=self._flat(kernel, 1),
            dilations=self._flat(dilation, 1),
            strides=self._flat(stride, 1),
            pads=[*self._flat(first, 0), *self._flat(last, 0)],
            group=groups,
        )

    def upsampling(self, x: str, channels: int, kernel: int, rate: int) -> str:
        """Lengthen a signal and halve its channels."""
        shape = (channels, channels // 2, *self._flat(kernel, 1))
        padding = (kernel - rate) // 2
        return self.node(
            "ConvTranspose",
            x,
            self.drawn(*shape, fan_in=channels * kernel // rate),
            self.constant(np.zeros(channels // 2, np.float32)),
            kernel_shape=self._flat(kernel, 1),
            strides=self._flat(rate, 1),
            pads=[*self._flat(padding, 0), *self._flat(padding, 0)],
        )

    def signal(self, x: str, channels: int) -> str:
        """Bring [1, T, C] into the shape of signals."""
        across = self.node("Transpose", x, perm=[0, 2, 1])
        return self.node("Reshape", across, self.sizes(1, channels, *self._flat(-1, 1)))

    def rows(self, x: str, channels: int) -> str:
        """Bring a signal into the shape [1, T, C]."""
        across = self.node("Reshape", x, self.sizes(1, channels, -1))
        return self.node("Transpose", across, perm=[0, 2, 1])

    def normalised(self, x: str, channels: int) -> str:
        """Normalise [1, T, C] over its channels."""
        ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        return self.node("LayerNormalization", x, self.constant(ones), self.constant(zeros))

    def gelu(self, x: str) -> str:
        """Add the rectifier of HuBERT, in the form that ONNX Runtime fuses."""
        half = self.node("Div", x, self.constant(np.array(math.sqrt(2), np.float32)))
        curve = self.node("Add", self.node("Erf", half), self.constant(np.array(1, np.float32)))
        return self.node(
            "Mul", self.node("Mul", x, curve), self.constant(np.array(0.5, np.float32))
        )

    def attention(self, x: str, channels: int, heads: int) -> str:
        """Add self-attention over [1, T, C]."""
        split = self.sizes(1, -1, heads, channels // heads)
        query, key, value = (
            self.node("Reshape", self.linear(x, channels, channels), split) for _ in range(3)
        )
        scale = self.constant(np.array(1 / math.sqrt(channels // heads), np.float32))
        queries = self.node("Transpose", self.node("Mul", query, scale), perm=[0, 2, 1, 3])
        keys = self.node("Transpose", key, perm=[0, 2, 3, 1])
        shares = self.node("Softmax", self.node("MatMul", queries, keys), axis=-1)
        heard = self.node("MatMul", shares, self.node("Transpose", value, perm=[0, 2, 1, 3]))
        together = self.node("Transpose", heard, perm=[0, 2, 1, 3])
        return self.linear(
            self.node("Reshape", together, self.sizes(1, -1, channels)), channels, channels
        )

    def model(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> bytes:
        """Return the model."""
        graph = helper.make_graph(self._nodes, "sketch", inputs, outputs, self._weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return bytes(
            helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
        )

    def name_last(self, name: str) -> None:
        """Give the last node's output a name."""
        self._nodes[-1].output[0] = name

    def _flat(self, size: int, other: int) -> list[int]:
        return [size] if self.rank == 3 else [other, size]  # noqa: PLR2004 - a plain signal's


def content_encoder() -> bytes:
    """Make an encoder as large as ContentVec: `source` [1, 1, N] -> `embed` [1, T, 768]."""
    sketch = Sketch()
    x, channels = "source", 1
    for index, (kernel, stride) in enumerate(STEM):
        x = sketch.convolution(x, channels, STEM_CHANNELS, kernel, stride=stride, padding=0)
        channels = STEM_CHANNELS
        if index == 0:
            ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
            x = sketch.node(
                "InstanceNormalization", x, sketch.constant(ones), sketch.constant(zeros)
            )
        x = sketch.gelu(x)
    x = sketch.normalised(sketch.rows(x, channels), channels)
    x = sketch.linear(x, channels, CONTENT_CHANNELS)
    across = sketch.signal(x, CONTENT_CHANNELS)
    places = sketch.convolution(
        across, CONTENT_CHANNELS, CONTENT_CHANNELS, POSITION_KERNEL, groups=POSITION_GROUPS
    )
    places = sketch.rows(sketch.gelu(places), CONTENT_CHANNELS)
    x = sketch.normalised(sketch.node("Add", x, places), CONTENT_CHANNELS)
    for _ in range(LAYERS):
        x = _transformer_layer(sketch, x)
    sketch.name_last("embed")
    return sketch.model(
        [helper.make_tensor_value_info("source", TensorProto.FLOAT, [1, 1, "samples"])],
        [helper.make_tensor_value_info("embed", TensorProto.FLOAT, [1, "frames", 768])],
    )


def _transformer_layer(sketch: Sketch, x: str) -> str:
    channels = CONTENT_CHANNELS
    x = sketch.node("Add", x, sketch.attention(x, channels, HEADS))
    x = sketch.normalised(x, channels)
    inner = sketch.gelu(sketch.linear(x, channels, FEED_FORWARD))
    x = sketch.node("Add", x, sketch.linear(inner, FEED_FORWARD, channels))
    return sketch.normalised(x, channels)


def synthesizer() -> bytes:
    """Make a voice of version 2 at 40 kHz with pitch, in the engine's contract."""
    sketch = Sketch(rank=4)
    frames = sketch.linear("phone", CONTENT_CHANNELS, _INTER)
    pitches = sketch.node("Gather", sketch.drawn(256, _INTER, fan_in=_INTER), "pitch")
    x = sketch.node("Add", frames, pitches)
    for _ in range(_VOICE_LAYERS):
        x = _text_layer(sketch, x)
    drawn = sketch.node("Reshape", "rnd", sketch.sizes(1, _INTER, 1, -1))
    latent = sketch.node("Add", sketch.signal(x, _INTER), drawn)
    latent = _flow(sketch, latent)
    _decoder(sketch, latent, _source(sketch))
    sketch.name_last("audio")
    kinds: dict[str, list[int | str]] = {"phone_lengths": [1], "pitch": [1, "frames"], "ds": [1]}
    floats: dict[str, list[int | str]] = {
        "phone": [1, "frames", CONTENT_CHANNELS],
        "pitchf": [1, "frames"],
        "rnd": [1, _INTER, "frames"],
        "noise": [1, "samples", 1],
    }
    inputs = [
        *(helper.make_tensor_value_info(n, TensorProto.INT64, s) for n, s in kinds.items()),
        *(helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in floats.items()),
    ]
    audio = helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1, 1, "samples"])
    return sketch.model(inputs, [audio])


def _text_layer(sketch: Sketch, x: str) -> str:
    x = sketch.node("Add", x, sketch.attention(x, _INTER, _VOICE_HEADS))
    x = sketch.normalised(x, _INTER)
    inner = sketch.convolution(sketch.signal(x, _INTER), _INTER, _FILTER, 3)
    inner = sketch.convolution(sketch.node("Relu", inner), _FILTER, _INTER, 3)
    return sketch.normalised(sketch.node("Add", x, sketch.rows(inner, _INTER)), _INTER)


def _flow(sketch: Sketch, x: str) -> str:
    half = _INTER // 2
    for _ in range(_FLOWS):
        first = sketch.node("Slice", x, sketch.sizes(0), sketch.sizes(half), sketch.sizes(1))
        second = sketch.node("Slice", x, sketch.sizes(half), sketch.sizes(_INTER), sketch.sizes(1))
        inner = sketch.convolution(first, half, _INTER, 1)
        total = None
        for _ in range(_FLOW_LAYERS):
            both = sketch.convolution(inner, _INTER, 2 * _INTER, _FLOW_KERNEL)
            wave = sketch.node("Slice", both, *map(sketch.sizes, (0, _INTER, 1)))
            gate = sketch.node("Slice", both, *map(sketch.sizes, (_INTER, 2 * _INTER, 1)))
            acts = sketch.node("Mul", sketch.node("Tanh", wave), sketch.node("Sigmoid", gate))
            inner = sketch.node("Add", inner, sketch.convolution(acts, _INTER, _INTER, 1))
            skipped = sketch.convolution(acts, _INTER, _INTER, 1)
            total = skipped if total is None else sketch.node("Add", total, skipped)
        change = sketch.convolution(total or inner, _INTER, half, 1)
        x = sketch.node("Concat", sketch.node("Sub", second, change), first, axis=1)
    return x


def _source(sketch: Sketch) -> str:
    """Add a sine of the pitch and the noise."""
    hop = math.prod(UPSAMPLE_RATES)
    turns = sketch.node("Cast", "pitchf", to=TensorProto.DOUBLE)
    turns = sketch.node("Div", turns, sketch.constant(np.array(SAMPLE_RATE, np.float64)))
    column = sketch.node("Reshape", turns, sketch.sizes(1, -1, 1))
    every = sketch.node("Tile", column, sketch.sizes(1, 1, hop))
    line = sketch.node("Reshape", every, sketch.sizes(1, -1))
    phase = sketch.node("CumSum", line, sketch.constant(np.array(1, np.int64)))
    whole = sketch.node("Sub", phase, sketch.node("Floor", phase))
    angle = sketch.node("Cast", whole, to=TensorProto.FLOAT)
    angle = sketch.node("Mul", angle, sketch.constant(np.array(2 * np.pi, np.float32)))
    shape = sketch.sizes(1, 1, 1, -1)
    sine = sketch.node("Reshape", sketch.node("Sin", angle), shape)
    return sketch.node("Add", sine, sketch.node("Reshape", "noise", shape))


def _decoder(sketch: Sketch, x: str, source: str) -> None:
    x = sketch.convolution(x, _INTER, UPSAMPLE_CHANNELS, 7)
    channels = UPSAMPLE_CHANNELS
    for stage, (rate, kernel) in enumerate(zip(UPSAMPLE_RATES, UPSAMPLE_KERNELS, strict=True)):
        x = sketch.upsampling(sketch.node("LeakyRelu", x, alpha=_SLOPE), channels, kernel, rate)
        channels //= 2
        x = sketch.node("Add", x, _shortened(sketch, source, stage, channels))
        blocks = [_block(sketch, x, channels, size) for size in BLOCK_KERNELS]
        x = sketch.node("Add", sketch.node("Add", blocks[0], blocks[1]), blocks[2])
        x = sketch.node("Mul", x, sketch.constant(np.array(1 / 3, np.float32)))
    x = sketch.convolution(sketch.node("LeakyRelu", x, alpha=0.01), channels, 1, 7)
    sketch.node("Reshape", sketch.node("Tanh", x), sketch.sizes(1, 1, -1))


def _shortened(sketch: Sketch, source: str, stage: int, channels: int) -> str:
    """Shorten the source to the length that the signal has after a stage."""
    stride = math.prod(UPSAMPLE_RATES[stage + 1 :])
    if stride == 1:
        return sketch.convolution(source, 1, channels, 1)
    return sketch.convolution(source, 1, channels, 2 * stride, stride=stride, padding=stride // 2)


def _block(sketch: Sketch, x: str, channels: int, kernel: int) -> str:
    for dilation in BLOCK_DILATIONS:
        inner = sketch.node("LeakyRelu", x, alpha=_SLOPE)
        inner = sketch.convolution(inner, channels, channels, kernel, dilation=dilation)
        inner = sketch.node("LeakyRelu", inner, alpha=_SLOPE)
        x = sketch.node("Add", x, sketch.convolution(inner, channels, channels, kernel))
    return x


_MEI: Final = ROOT / "tests" / "data" / "bundles" / "mei"


def write_beside_mei(
    folder: Path, character: str, fields: Mapping[str, Any], graphs: Mapping[str, bytes]
) -> None:
    """Write a character beside Mei, whom a cloud has in any case."""
    shutil.copytree(_MEI, folder / _MEI.name)
    manifest = json.loads((_MEI / MANIFEST).read_text("utf-8"))
    manifest |= {"id": character, "pitch": None, "text": None, "preview": preview(None)}
    write_files(folder / character, manifest | dict(fields), graphs)


CHARACTER: Final = "full-size"


def write_characters(folder: Path) -> None:
    """Write a folder of characters: this one, and the one that a cloud has in any case."""
    files = {"content": content_encoder(), "synthesizer": synthesizer()}
    fields = {
        "engine": "rvc",
        "sample_rate": SAMPLE_RATE,
        "takes": "speech",
        "settings": {},
        "graphs": {role: entry(role, content) for role, content in files.items()},
    }
    write_beside_mei(folder, CHARACTER, fields, files)
