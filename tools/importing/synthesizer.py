"""The whole synthesizer of a voice as one ONNX graph.

Inputs, for T frames of 10 ms, F features and `hop` samples per frame:

| name | type | is |
|---|---|---|
| phone | float32 [1, T, F] | features |
| phone_lengths | int64 [1] | how many frames count |
| pitch | int64 [1, T] | coarse pitch, 1 to 255 |
| pitchf | float32 [1, T] | fundamental frequency in Hz, 0 = unvoiced |
| ds | int64 [1] | speaker |
| rnd | float32 [1, C, T] | the prior's noise, scaled by the caller |
| noise | float32 [1, T * hop, H] | the source's noise, of unit variance, H harmonics |

The output is `audio`, float32 [1, 1, T * hop]. A voice without pitch has no `pitch`, `pitchf` and
`noise`. Nothing in the graph is random, and every length works.

Signals have four axes, which is a ninth faster than three, and weights are float32: float16 is no
faster, and its error is above what two exports of a voice differ (docs/architecture.md, 22).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tools.bundles.encoder_store import FEATURE_SIZES
from tools.importing.graph_builder import DOUBLE, FLOAT, INT64, GraphBuilder
from tools.importing.synthesizer_layers import (
    Flow,
    LayerWeights,
    Prior,
    Speakers,
    TextEncoder,
    centred,
    convolution,
    leaky,
    sum_of,
)
from tools.importing.voice_file import MRF_HIFI_GAN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tools.importing.voice_file import NetworkSizes, VoiceFile


_SLOPE = 0.1
_LAST_SLOPE = 0.01
_KERNEL = 7


@dataclass(frozen=True)
class LayerNames:
    upsample: str
    block: str
    first: str
    second: str


HIFI_GAN_NAMES = LayerNames(
    "dec.ups.{stage}", "dec.resblocks.{number}", "convs1.{layer}", "convs2.{layer}"
)
MRF_NAMES = LayerNames(
    "dec.upsamples.{stage}",
    "dec.mrfs.{stage}.{block}",
    "layers.{layer}.conv1",
    "layers.{layer}.conv2",
)


@dataclass(frozen=True)
class HifiGanDecoder:
    graph: GraphBuilder
    weights: LayerWeights
    sizes: NetworkSizes
    names: LayerNames
    speakers: Speakers

    def add(self, signal: str, source: str | None) -> str:
        """Add all of it.

        Args:
            signal: [1, C, 1, T].
            source: [1, 1, 1, T * hop], or None for a voice without pitch.

        Returns:
            The audio, [1, 1, T * hop].
        """
        graph, weights, sizes = self.graph, self.weights, self.sizes
        channels = sizes.upsample_channels
        first = weights.pair("dec.conv_pre", channels, sizes.inter_channels, _KERNEL)
        x = convolution(graph, signal, *first, padding=centred(_KERNEL))
        condition = weights.pair("dec.cond", channels, sizes.speaker_channels, 1)
        x = graph.node("Add", x, self.speakers.vector(*condition))
        gain = 1.0
        for stage in range(len(sizes.upsample_rates)):
            x = self.upsampled(stage, leaky(graph, x, _SLOPE), gain)
            if source is not None:
                x = graph.node("Add", x, self._noise(stage, source))
            blocks = [self._block(stage, block, x) for block in range(len(sizes.resblock_kernels))]
            x = sum_of(graph, blocks)
            gain = 1 / len(blocks)
        return self._audio(x, gain)

    def _audio(self, x: str, gain: float) -> str:
        graph, weights = self.graph, self.weights
        channels = self._channels(len(self.sizes.upsample_rates) - 1)
        weight = weights.take("dec.conv_post.weight", 1, channels, _KERNEL) * np.float32(gain)
        has_bias = "dec.conv_post.bias" in weights
        bias = weights.take("dec.conv_post.bias", 1) if has_bias else None
        x = leaky(graph, x, _LAST_SLOPE)
        audio = graph.node("Tanh", convolution(graph, x, weight, bias, padding=centred(_KERNEL)))
        return graph.node("Reshape", audio, graph.sizes(1, 1, -1))

    def _channels(self, stage: int) -> int:
        return self.sizes.upsample_channels >> (stage + 1)

    def upsampled(self, stage: int, x: str, gain: float) -> str:
        graph, sizes = self.graph, self.sizes
        rate, kernel = sizes.upsample_rates[stage], sizes.upsample_kernels[stage]
        name, channels = self.names.upsample.format(stage=stage), self._channels(stage)
        weight = self.weights.take(f"{name}.weight", 2 * channels, channels, kernel)
        bias = self.weights.take(f"{name}.bias", channels)
        # An odd surplus is cut off in front, with what Applio calls the output padding.
        before = (kernel - rate + 1) // 2
        return graph.node(
            "ConvTranspose",
            x,
            graph.constant((weight * np.float32(gain))[:, :, None, :]),
            graph.constant(bias),
            kernel_shape=[1, kernel],
            strides=[1, rate],
            pads=[0, before, 0, kernel - rate - before],
        )

    def _noise(self, stage: int, source: str) -> str:
        """Shorten the source to the length that the signal has after a stage."""
        graph, channels = self.graph, self._channels(stage)
        stride = math.prod(self.sizes.upsample_rates[stage + 1 :])
        name = f"dec.noise_convs.{stage}"
        kernel = 1 if stride == 1 else 2 * stride - stride % 2
        layer = self.weights.pair(name, channels, 1, kernel)
        before = (kernel - stride) // 2
        padding = (before, kernel - stride - before)
        return convolution(graph, source, *layer, stride=stride, padding=padding)

    def _block(self, stage: int, block: int, x: str) -> str:
        sizes = self.sizes
        number = stage * len(sizes.resblock_kernels) + block
        name = self.names.block.format(stage=stage, block=block, number=number)
        kernel, dilations = sizes.resblock_kernels[block], sizes.resblock_dilations[block]
        for layer, dilation in enumerate(dilations):
            if f"{name}.convs.{layer}.weight" in self.weights:
                names = [f"{name}.convs.{layer}"]
            else:
                names = [
                    f"{name}.{each.format(layer=layer)}"
                    for each in (self.names.first, self.names.second)
                ]
            change = self.convolved(names[0], x, stage, kernel, dilation)
            for other in names[1:]:
                change = self.convolved(other, change, stage, kernel, 1)
            x = self.graph.node("Add", change, x)
        return x

    def convolved(self, name: str, x: str, stage: int, kernel: int, dilation: int) -> str:
        channels = self._channels(stage)
        return convolution(
            self.graph,
            leaky(self.graph, x, _SLOPE),
            *self.weights.pair(name, channels, channels, kernel),
            dilation=dilation,
            padding=centred(kernel, dilation),
        )


_SINE_AMPLITUDE = 0.1
_VOICED_NOISE = 0.003
_UNVOICED_NOISE = _SINE_AMPLITUDE / 3


@dataclass(frozen=True)
class PitchSource:
    """Adds the source to a graph.

    Attributes:
        hop: samples per frame.
        sample_rate: in Hz.
        weight: [1, H], how the H harmonics are mixed.
        bias: [1].
    """

    graph: GraphBuilder
    hop: int
    sample_rate: int
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def add(self, hertz: str, noise: str) -> str:
        """Add all of it.

        Args:
            hertz: float32 [1, T], 0 in unvoiced frames.
            noise: float32 [1, T * hop, H], of unit variance.

        Returns:
            [1, 1, 1, T * hop].
        """
        graph = self.graph
        frames = graph.node("Unsqueeze", hertz, graph.sizes(2))
        is_voiced = graph.node("Greater", frames, graph.number(0.0))
        sine = graph.node("Mul", self.sines(frames), self.per_sample(is_voiced, _SINE_AMPLITUDE))
        level = self.per_sample(is_voiced, _VOICED_NOISE, _UNVOICED_NOISE)
        waves = graph.node("Add", sine, graph.node("Mul", level, noise))
        mixed = graph.node("MatMul", waves, graph.constant(np.ascontiguousarray(self.weight.T)))
        mixed = graph.node("Tanh", graph.node("Add", mixed, graph.constant(self.bias)))
        return graph.node("Reshape", mixed, graph.sizes(1, 1, 1, -1))

    def sines(self, frames: str) -> str:
        """[1, T, 1] in Hz -> [1, T * hop, H]."""
        graph = self.graph
        turns = graph.node("Div", frames, graph.number(self.sample_rate))
        turns = graph.node("Cast", turns, to=DOUBLE)
        ramp = graph.constant(np.arange(1, self.hop + 1, dtype=np.float64).reshape(1, 1, -1))
        within = graph.node("Mul", turns, ramp)
        whole = graph.node("Mul", turns, graph.constant(np.array(self.hop, np.float64)))
        axis = graph.constant(np.array(1, np.int64))
        before = graph.node("CumSum", self.fraction(whole), axis, exclusive=1)
        phase = graph.node("Add", within, before)
        phase = graph.node("Reshape", phase, graph.sizes(1, -1, 1))
        harmonics = self.weight.shape[1]
        orders = np.arange(1, harmonics + 1, dtype=np.float64).reshape(1, 1, -1)
        if harmonics > 1:
            phase = graph.node("Mul", self.fraction(phase), graph.constant(orders))
        phase = graph.node("Cast", self.fraction(phase), to=FLOAT)
        return graph.node("Sin", graph.node("Mul", phase, graph.number(2 * np.pi)))

    def fraction(self, turns: str) -> str:
        return self.graph.node("Sub", turns, self.graph.node("Floor", turns))

    def per_sample(self, is_voiced: str, voiced: float, unvoiced: float = 0.0) -> str:
        """Return one value for voiced and one for unvoiced frames, at every sample."""
        graph = self.graph
        values = graph.node("Where", is_voiced, graph.number(voiced), graph.number(unvoiced))
        spread = graph.node("Tile", values, graph.sizes(1, 1, self.hop))
        return graph.node("Reshape", spread, graph.sizes(1, -1, 1))


def build_synthesizer(voice: VoiceFile) -> bytes:
    graph, weights = GraphBuilder(), LayerWeights(voice.weights)
    features = FEATURE_SIZES[voice.version]
    phone = graph.input("phone", FLOAT, (1, "T", features))
    lengths = graph.input("phone_lengths", INT64, (1,))
    pitch = graph.input("pitch", INT64, (1, "T")) if voice.has_pitch else None
    hertz = graph.input("pitchf", FLOAT, (1, "T")) if voice.has_pitch else None
    speaker = graph.input("ds", INT64, (1,))
    random = graph.input("rnd", FLOAT, (1, voice.sizes.inter_channels, "T"))
    embeddings = weights.take("emb_g.weight", voice.speakers, voice.sizes.speaker_channels)
    speakers = Speakers(graph, embeddings, speaker)
    mask, mask_signal = masks(graph, phone, lengths)
    encoder = TextEncoder(graph, weights, voice.sizes, mask, mask_signal)
    sample = _sample(graph, encoder.add(phone, pitch, features), random, mask_signal)
    signal = Flow(graph, weights, voice.sizes, mask_signal, speakers).add(sample)
    source = None if hertz is None else _source(graph, weights, voice, hertz)
    names = MRF_NAMES if voice.vocoder == MRF_HIFI_GAN else HIFI_GAN_NAMES
    audio = HifiGanDecoder(graph, weights, voice.sizes, names, speakers).add(signal, source)
    graph.output(audio, "audio", FLOAT, (1, 1, "N"))
    weights.finish()
    return graph.model("rvc", {"metadata": json.dumps(metadata(voice), sort_keys=True)})


def metadata(voice: VoiceFile) -> dict[str, object]:
    """Write the metadata that voice-changer looks for in a file."""
    return {
        "f0": voice.has_pitch,
        "samplingRate": voice.sizes.sample_rate,
        "embChannels": FEATURE_SIZES[voice.version],
    }


def masks(graph: GraphBuilder, phone: str, lengths: str) -> tuple[str, str]:
    """Return 1 for frames that count and 0 for others, as [1, 1, T, 1] and as [1, 1, 1, T]."""
    count = graph.node("Squeeze", graph.node("Shape", phone, start=1, end=2))
    zero, one = (graph.constant(np.array(value, np.int64)) for value in (0, 1))
    frames = graph.node("Range", zero, count, one)
    counts = graph.node("Cast", graph.node("Less", frames, lengths), to=FLOAT)
    return (
        graph.node("Reshape", counts, graph.sizes(1, 1, -1, 1)),
        graph.node("Reshape", counts, graph.sizes(1, 1, 1, -1)),
    )


def _sample(graph: GraphBuilder, prior: Prior, random: str, mask: str) -> str:
    noise = graph.node("Unsqueeze", random, graph.sizes(2))
    spread = graph.node("Exp", prior.log_spread)
    drawn = graph.node("Add", prior.mean, graph.node("Mul", spread, noise))
    return graph.node("Mul", drawn, mask)


def _source(graph: GraphBuilder, weights: LayerWeights, voice: VoiceFile, hertz: str) -> str:
    weight, bias = weights.pair("dec.m_source.l_linear", 1, None)
    noise = graph.input("noise", FLOAT, (1, "N", weight.shape[1]))
    sizes = voice.sizes
    return PitchSource(graph, sizes.hop, sizes.sample_rate, weight, bias).add(hertz, noise)
