"""The layers that the parts of the synthesizer share, with the weights' shapes checked.

Signals are [1, C, 1, T]: ONNX Runtime blocks the channels of two-dimensional convolutions for the
processor's vector units, and leaves one-dimensional ones as they are. What that gives stands in
`tools.importing.synthesizer`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shared.runtime.quoting import quoted
from tools.bundles.files import VoiceFileError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tools.importing.graph_builder import GraphBuilder
    from tools.importing.voice_file import NetworkSizes


class LayerWeights:
    """The weights of a voice, of which every one must be used once, in the expected shape.

    Args:
        tensors: float32 by name.
    """

    def __init__(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        self._tensors = dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int | None) -> NDArray[np.float32]:
        """Take a tensor out.

        Args:
            shape: its sizes; None where any will do.
        """
        expected = f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
        tensor = self._tensors.pop(name, None)
        if tensor is None:
            raise VoiceFileError(f"tensor {quoted(name)}: expected {expected}, found none.")
        fits = len(shape) == tensor.ndim and all(
            size in {None, found} for size, found in zip(shape, tensor.shape, strict=True)
        )
        if not fits:
            raise VoiceFileError(
                f"tensor {quoted(name)}: expected {expected}, found {list(tensor.shape)}."
            )
        return tensor

    def pair(
        self, name: str, *shape: int | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Take a layer's weight of a shape, and its bias: one number for each row."""
        return self.take(f"{name}.weight", *shape), self.take(f"{name}.bias", shape[0])

    def finish(self) -> None:
        """Refuse a voice with weights that no part of the network has taken."""
        for name, tensor in self._tensors.items():
            raise VoiceFileError(
                f"tensor {quoted(name)}: expected none of this name in such a voice, found"
                f" {list(tensor.shape)}."
            )


def convolution(
    graph: GraphBuilder,
    signal: str,
    weight: NDArray[np.float32],
    bias: NDArray[np.float32] | None,
    *,
    dilation: int = 1,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
) -> str:
    """Add a convolution over time.

    Args:
        signal: [1, C, 1, T].
        weight: [D, C, K].
        bias: [D] or None.
        dilation: between the kernel's taps.
        stride: between the results.

    Returns:
        [1, D, 1, T'].
    """
    inputs = [signal, graph.constant(weight[:, :, None, :])]
    if bias is not None:
        inputs.append(graph.constant(bias))
    return graph.node(
        "Conv",
        *inputs,
        kernel_shape=[1, weight.shape[2]],
        dilations=[1, dilation],
        strides=[1, stride],
        pads=[0, padding[0], 0, padding[1]],
    )


def centred(kernel: int, dilation: int = 1) -> tuple[int, int]:
    """Return the padding that keeps the length: the longer half goes to the end."""
    reach = (kernel - 1) * dilation
    return reach // 2, reach - reach // 2


def leaky(graph: GraphBuilder, signal: str, slope: float) -> str:
    return graph.node("LeakyRelu", signal, alpha=slope)


def sum_of(graph: GraphBuilder, signals: Sequence[str]) -> str:
    total = signals[0]
    for signal in signals[1:]:
        total = graph.node("Add", total, signal)
    return total


LAYERS = 4
_KERNEL = 5
_CONVOLUTIONS = 3


@dataclass(frozen=True)
class Speakers:
    """The part of the network that knows who speaks, worked out per speaker.

    Attributes:
        embeddings: [S, G], one row per speaker.
        speaker: int64 [1], the number of the row.
    """

    graph: GraphBuilder
    embeddings: NDArray[np.float32]
    speaker: str

    def vector(self, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        """Add a linear layer of the speaker's embedding, as a table with a row per speaker.

        Args:
            weight: [D, G, 1].
            bias: [D].

        Returns:
            [1, D, 1, 1].
        """
        embeddings = self.embeddings.astype(np.float64)
        table = embeddings @ weight[:, :, 0].T.astype(np.float64) + bias
        rows = self.graph.constant(table.astype(np.float32)[:, :, None, None])
        return self.graph.node("Gather", rows, self.speaker, axis=0)


@dataclass(frozen=True)
class Flow:
    """Adds the flow to a graph.

    Attributes:
        mask: [1, 1, 1, T], 1 for frames that count and 0 for others.
    """

    graph: GraphBuilder
    weights: LayerWeights
    sizes: NetworkSizes
    mask: str
    speakers: Speakers

    def add(self, sample: str) -> str:
        """Add all of it: [1, C, 1, T] -> [1, C, 1, T]."""
        graph, half = self.graph, self.sizes.inter_channels // 2
        split = graph.sizes(half, half)
        first, second = graph.nodes("Split", [sample, split], 2, axis=1)
        for layer in reversed(range(LAYERS)):
            name = f"flow.flows.{2 * layer}"
            if layer % 2:
                first = self.shifted(name, first, by=second, is_reversed=True)
            else:
                second = self.shifted(name, second, by=first, is_reversed=False)
        return graph.node("Concat", first, second, axis=1)

    def shifted(self, name: str, signal: str, *, by: str, is_reversed: bool) -> str:
        """Take back what a layer has added to one half of the channels, given the other half."""
        graph, half, hidden = (
            self.graph,
            self.sizes.inter_channels // 2,
            self.sizes.hidden_channels,
        )
        order = slice(None, None, -1 if is_reversed else 1)
        weight, bias = self.weights.pair(f"{name}.pre", hidden, half, 1)
        inner = convolution(graph, by, weight[:, order], bias)
        inner = self.wave_net(f"{name}.enc", graph.node("Mul", inner, self.mask))
        weight, bias = self.weights.pair(f"{name}.post", half, hidden, 1)
        shift = convolution(graph, inner, weight[order], bias[order])
        shift = graph.node("Mul", shift, self.mask)
        return graph.node("Mul", graph.node("Sub", signal, shift), self.mask)

    def wave_net(self, name: str, x: str) -> str:
        """Gated convolutions with skip connections (van den Oord et al., "WaveNet", 2016)."""
        graph, hidden = self.graph, self.sizes.hidden_channels
        width = 2 * hidden
        weight, bias = self.weights.pair(f"{name}.cond_layer", width * _CONVOLUTIONS, None, 1)
        split = graph.sizes(*[width] * _CONVOLUTIONS)
        vector = self.speakers.vector(weight, bias)
        speakers = graph.nodes("Split", [vector, split], _CONVOLUTIONS, axis=1)
        halves = graph.sizes(hidden, hidden)
        skipped = []
        for layer in range(_CONVOLUTIONS):
            layers = self.weights.pair(f"{name}.in_layers.{layer}", width, hidden, _KERNEL)
            inner = convolution(graph, x, *layers, padding=centred(_KERNEL))
            inner = graph.node("Add", inner, speakers[layer])
            value, gate = graph.nodes("Split", [inner, halves], 2, axis=1)
            gated = graph.node("Mul", graph.node("Tanh", value), graph.node("Sigmoid", gate))
            is_last = layer == _CONVOLUTIONS - 1
            rows = hidden if is_last else width
            layers = self.weights.pair(f"{name}.res_skip_layers.{layer}", rows, hidden, 1)
            onward = convolution(graph, gated, *layers)
            if not is_last:
                change, onward = graph.nodes("Split", [onward, halves], 2, axis=1)
                x = graph.node("Mul", graph.node("Add", x, change), self.mask)
            skipped.append(onward)
        total = graph.node("Add", graph.node("Add", skipped[0], skipped[1]), skipped[2])
        return graph.node("Mul", total, self.mask)


PITCHES = 256
_SLOPE = 0.1
_EPSILON = 1e-5
_MASKED = 1e4


@dataclass(frozen=True)
class Prior:
    """The outputs of the text encoder: mean and logarithm of the spread, [1, C, 1, T] each."""

    mean: str
    log_spread: str


@dataclass(frozen=True)
class TextEncoder:
    """Adds the text encoder to a graph.

    Attributes:
        mask: [1, 1, T, 1], 1 for frames that count and 0 for others.
        mask_signal: the same as [1, 1, 1, T].
    """

    graph: GraphBuilder
    weights: LayerWeights
    sizes: NetworkSizes
    mask: str
    mask_signal: str

    def add(self, features: str, pitch: str | None, feature_size: int) -> Prior:
        """Add all of it.

        Args:
            features: [1, T, F].
            pitch: int64 [1, T], 0 to 255, or None.
        """
        graph, hidden = self.graph, self.sizes.hidden_channels
        x = self.embedded(features, pitch, feature_size)
        x = graph.node("Unsqueeze", x, graph.sizes(1))
        x = graph.node("Mul", x, self.mask)
        # A column that is masked loses so much that the softmax leaves nothing of it.
        missing = graph.node("Sub", self.mask_signal, graph.number(1.0))
        bias = graph.node("Mul", missing, graph.number(_MASKED))
        for layer in range(self.sizes.layers):
            attended = self.attention(f"enc_p.encoder.attn_layers.{layer}", x, bias)
            x = self.normalised(f"enc_p.encoder.norm_layers_1.{layer}", x, attended)
            forwarded = self.feed_forward(f"enc_p.encoder.ffn_layers.{layer}", x)
            x = self.normalised(f"enc_p.encoder.norm_layers_2.{layer}", x, forwarded)
        x = graph.node("Mul", x, self.mask)
        inter = self.sizes.inter_channels
        weight, shift = self.weights.pair("enc_p.proj", 2 * inter, hidden, 1)
        stats = self.linear(x, weight[:, :, 0], shift)
        stats = graph.node("Transpose", stats, perm=[0, 3, 1, 2])
        split = graph.sizes(inter, inter)
        mean, log_spread = graph.nodes("Split", [stats, split], 2, axis=1)
        return Prior(mean, log_spread)

    def embedded(self, features: str, pitch: str | None, feature_size: int) -> str:
        graph, hidden = self.graph, self.sizes.hidden_channels
        # The factor after the sum goes into both tables.
        factor = np.float32(math.sqrt(hidden))
        weight, bias = self.weights.pair("enc_p.emb_phone", hidden, feature_size)
        x = self.linear(features, weight * factor, bias * factor)
        if pitch is not None:
            table = self.weights.take("enc_p.emb_pitch.weight", PITCHES, hidden) * factor
            x = graph.node("Add", x, graph.node("Gather", graph.constant(table), pitch, axis=0))
        return graph.node("LeakyRelu", x, alpha=_SLOPE)

    def linear(self, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        graph = self.graph
        product = graph.node("MatMul", x, graph.constant(np.ascontiguousarray(weight.T)))
        return graph.node("Add", product, graph.constant(bias))

    def projection(self, name: str, x: str, factor: float = 1.0) -> str:
        hidden = self.sizes.hidden_channels
        weight, bias = self.weights.pair(name, hidden, hidden, 1)
        scale = np.float32(factor)
        return self.linear(x, weight[:, :, 0] * scale, bias * scale)

    def attention(self, name: str, x: str, bias: str) -> str:
        """[1, 1, T, H] -> [1, 1, T, H]."""
        graph, heads = self.graph, self.sizes.heads
        depth = self.sizes.hidden_channels // heads
        split = graph.sizes(0, -1, heads, depth)

        def per_head(projected: str, axes: list[int]) -> str:
            return graph.node("Transpose", graph.node("Reshape", projected, split), perm=axes)

        query = self.projection(f"{name}.conv_q", x, 1 / math.sqrt(depth))
        query = per_head(query, [0, 2, 1, 3])
        keys = per_head(self.projection(f"{name}.conv_k", x), [0, 2, 3, 1])
        values = per_head(self.projection(f"{name}.conv_v", x), [0, 2, 1, 3])
        near_keys = self.weights.take(f"{name}.emb_rel_k", 1, None, depth)[0]
        near_values = self.weights.take(f"{name}.emb_rel_v", 1, len(near_keys), depth)[0]
        scores = graph.node("MatMul", query, keys)
        near = graph.node("MatMul", query, graph.constant(np.ascontiguousarray(near_keys.T)))
        scores = graph.node("Add", scores, self.as_band(near, len(near_keys)))
        shares = graph.node("Softmax", graph.node("Add", scores, bias), axis=-1)
        near_shares = self.from_band(shares, len(near_keys))
        mixed = graph.node(
            "Add",
            graph.node("MatMul", shares, values),
            graph.node("MatMul", near_shares, graph.constant(near_values)),
        )
        together = graph.node("Transpose", mixed, perm=[0, 2, 1, 3])
        together = graph.node("Reshape", together, graph.sizes(1, 1, -1, heads * depth))
        return self.projection(f"{name}.conv_o", together)

    def _length(self) -> str:
        return self.graph.node("Shape", self.mask, start=2, end=3)

    def as_band(self, near: str, width: int) -> str:
        """Lay [1, H, T, W] out as a band of [1, H, T, T]."""
        graph, heads = self.graph, self.sizes.heads
        length = self._length()
        flat = self.padded_rows(near, graph.sizes(0), length)
        flat = graph.node("Reshape", flat, graph.sizes(1, heads, -1))
        # Without its last T elements it has T rows that are one element shorter.
        flat = graph.node("Slice", flat, graph.sizes(0), graph.node("Neg", length), graph.sizes(2))
        rows = graph.node("Add", length, graph.sizes(width - 1))
        shape = graph.node("Concat", graph.sizes(1, heads, -1), rows, axis=0)
        skewed = graph.node("Reshape", flat, shape)
        reach = width // 2
        end = graph.node("Add", length, graph.sizes(reach))
        return graph.node("Slice", skewed, graph.sizes(reach), end, graph.sizes(3))

    def from_band(self, shares: str, width: int) -> str:
        """Take the band [1, H, T, W] out of [1, H, T, T]."""
        graph, heads = self.graph, self.sizes.heads
        length, reach = self._length(), width // 2
        wide = self.padded_rows(shares, graph.sizes(reach), graph.sizes(reach))
        flat = graph.node("Reshape", wide, graph.sizes(1, heads, -1))
        none = graph.sizes(0, 0, 0, 0, 0)
        flat = graph.node("Pad", flat, graph.node("Concat", none, length, axis=0))
        rows = graph.node("Add", length, graph.sizes(width))
        shape = graph.node("Concat", graph.sizes(1, heads, -1), rows, axis=0)
        straight = graph.node("Reshape", flat, shape)
        return graph.node("Slice", straight, graph.sizes(0), graph.sizes(width), graph.sizes(3))

    def padded_rows(self, x: str, before: str, after: str) -> str:
        """Pad the last of four axes with zeros."""
        graph = self.graph
        none = graph.sizes(0, 0, 0)
        return graph.node("Pad", x, graph.node("Concat", none, before, none, after, axis=0))

    def feed_forward(self, name: str, x: str) -> str:
        """[1, 1, T, H] -> [1, 1, T, H], by two convolutions over time."""
        graph, sizes = self.graph, self.sizes
        hidden, inner, kernel = sizes.hidden_channels, sizes.filter_channels, sizes.kernel_size
        before, after = (kernel - 1) // 2, kernel // 2
        signal = graph.node("Transpose", graph.node("Mul", x, self.mask), perm=[0, 3, 1, 2])
        first = self.weights.pair(f"{name}.conv_1", inner, hidden, kernel)
        signal = convolution(graph, signal, *first, padding=(before, after))
        signal = graph.node("Mul", graph.node("Relu", signal), self.mask_signal)
        second = self.weights.pair(f"{name}.conv_2", hidden, inner, kernel)
        signal = convolution(graph, signal, *second, padding=(before, after))
        return graph.node("Mul", graph.node("Transpose", signal, perm=[0, 2, 3, 1]), self.mask)

    def normalised(self, name: str, x: str, change: str) -> str:
        graph, hidden = self.graph, self.sizes.hidden_channels
        return graph.node(
            "LayerNormalization",
            graph.node("Add", x, change),
            graph.constant(self.weights.take(f"{name}.gamma", hidden)),
            graph.constant(self.weights.take(f"{name}.beta", hidden)),
            axis=-1,
            epsilon=_EPSILON,
        )
