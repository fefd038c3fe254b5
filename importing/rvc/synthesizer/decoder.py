"""The decoder: HiFi-GAN, with a source of the pitch added at every stage if there is a pitch.

Kong et al., "HiFi-GAN", 2020; RVC, infer/lib/infer_pack/models.py, `Generator` and `GeneratorNSF`;
Applio, rvc/lib/algorithm/generators/hifigan_mrf.py, which names its layers otherwise.

The mean over a stage's residual blocks is left out: a rectifier lets positive factors through, so
that they go into the weights of the next layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from importing.rvc.synthesizer.layers import Weights, centred, convolution, leaky, sum_of

if TYPE_CHECKING:
    from importing.files.graph_builder import GraphBuilder
    from importing.rvc.checkpoint.voice_config import NetworkSizes
    from importing.rvc.synthesizer.flow import Speakers

_SLOPE = 0.1
_LAST_SLOPE = 0.01
_KERNEL = 7


@dataclass(frozen=True)
class LayerNames:
    """What the layers of a decoder are called.

    Attributes:
        upsample: of a stage's transposed convolution.
        block: of a residual block, by its stage and number there, or by its number in all.
        first: of a block's convolution with a dilation.
        second: of the one after it, without.
    """

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


class Decoder:
    """Adds the decoder to a graph.

    Args:
        graph: to add to.
        weights: of the voice.
        sizes: of the network.
        names: of its layers.
        speakers: who speaks.
    """

    def __init__(
        self,
        graph: GraphBuilder,
        weights: Weights,
        sizes: NetworkSizes,
        names: LayerNames,
        speakers: Speakers,
    ) -> None:
        self._graph = graph
        self._weights = weights
        self._sizes = sizes
        self._names = names
        self._speakers = speakers

    def add(self, signal: str, source: str | None) -> str:
        """Add all of it.

        Args:
            signal: [1, C, 1, T].
            source: [1, 1, 1, T * hop], or None for a voice without pitch.

        Returns:
            The audio, [1, 1, T * hop].
        """
        graph, weights, sizes = self._graph, self._weights, self._sizes
        channels = sizes.upsample_channels
        weight = weights.take("dec.conv_pre.weight", channels, sizes.inter_channels, _KERNEL)
        bias = weights.take("dec.conv_pre.bias", channels)
        x = convolution(graph, signal, weight, bias, padding=centred(_KERNEL))
        weight = weights.take("dec.cond.weight", channels, sizes.speaker_channels, 1)
        speaker = self._speakers.vector(weight, weights.take("dec.cond.bias", channels))
        x = graph.node("Add", x, speaker)
        gain = 1.0
        for stage in range(len(sizes.upsample_rates)):
            x = self._upsampled(stage, leaky(graph, x, _SLOPE), gain)
            if source is not None:
                x = graph.node("Add", x, self._noise(stage, source))
            blocks = [self._block(stage, block, x) for block in range(len(sizes.resblock_kernels))]
            x = sum_of(graph, blocks)
            gain = 1 / len(blocks)
        return self._audio(x, gain)

    def _audio(self, x: str, gain: float) -> str:
        graph, weights = self._graph, self._weights
        channels = self._channels(len(self._sizes.upsample_rates) - 1)
        weight = weights.take("dec.conv_post.weight", 1, channels, _KERNEL) * np.float32(gain)
        has_bias = "dec.conv_post.bias" in weights
        bias = weights.take("dec.conv_post.bias", 1) if has_bias else None
        x = leaky(graph, x, _LAST_SLOPE)
        audio = graph.node("Tanh", convolution(graph, x, weight, bias, padding=centred(_KERNEL)))
        return graph.node("Reshape", audio, graph.sizes(1, 1, -1))

    def _channels(self, stage: int) -> int:
        return self._sizes.upsample_channels >> (stage + 1)

    def _upsampled(self, stage: int, x: str, gain: float) -> str:
        graph, sizes = self._graph, self._sizes
        rate, kernel = sizes.upsample_rates[stage], sizes.upsample_kernels[stage]
        name, channels = self._names.upsample.format(stage=stage), self._channels(stage)
        weight = self._weights.take(f"{name}.weight", 2 * channels, channels, kernel)
        bias = self._weights.take(f"{name}.bias", channels)
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
        graph, channels = self._graph, self._channels(stage)
        stride = math.prod(self._sizes.upsample_rates[stage + 1 :])
        name = f"dec.noise_convs.{stage}"
        kernel = 1 if stride == 1 else 2 * stride - stride % 2
        weight = self._weights.take(f"{name}.weight", channels, 1, kernel)
        bias = self._weights.take(f"{name}.bias", channels)
        before = (kernel - stride) // 2
        padding = (before, kernel - stride - before)
        return convolution(graph, source, weight, bias, stride=stride, padding=padding)

    def _block(self, stage: int, block: int, x: str) -> str:
        sizes = self._sizes
        number = stage * len(sizes.resblock_kernels) + block
        name = self._names.block.format(stage=stage, block=block, number=number)
        kernel, dilations = sizes.resblock_kernels[block], sizes.resblock_dilations[block]
        for layer, dilation in enumerate(dilations):
            if f"{name}.convs.{layer}.weight" in self._weights:
                names = [f"{name}.convs.{layer}"]
            else:
                names = [
                    f"{name}.{each.format(layer=layer)}"
                    for each in (self._names.first, self._names.second)
                ]
            change = self._convolved(names[0], x, stage, kernel, dilation)
            for other in names[1:]:
                change = self._convolved(other, change, stage, kernel, 1)
            x = self._graph.node("Add", change, x)
        return x

    def _convolved(self, name: str, x: str, stage: int, kernel: int, dilation: int) -> str:
        channels = self._channels(stage)
        return convolution(
            self._graph,
            leaky(self._graph, x, _SLOPE),
            self._weights.take(f"{name}.weight", channels, channels, kernel),
            self._weights.take(f"{name}.bias", channels),
            dilation=dilation,
            padding=centred(kernel, dilation),
        )
