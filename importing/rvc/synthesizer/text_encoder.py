"""The text encoder: features and coarse pitch to the mean and spread of the prior.

A transformer with relative positions in a window (Shaw et al., "Self-Attention with Relative
Position Representations", 2018), as in VITS (Kim et al., 2021) and RVC
(infer/lib/infer_pack/models.py, `TextEncoder`).

Of the relative positions only those within the window are ever computed. To lay the [T, 2w+1]
values of a window out as a band of a [T, T+2w] matrix, their rows are padded to T+2w+1 and the
whole is read as rows of T+2w: every row then begins one column further to the right than the one
before. The reverse takes a band out of a matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from importing.rvc.synthesizer.layers import Weights, convolution

if TYPE_CHECKING:
    from importing.files.graph_builder import GraphBuilder
    from importing.rvc.checkpoint.voice_config import NetworkSizes

PITCHES = 256
_SLOPE = 0.1
_EPSILON = 1e-5
_MASKED = 1e4


@dataclass(frozen=True)
class Prior:
    """The outputs of the text encoder: mean and logarithm of the spread, [1, C, 1, T] each."""

    mean: str
    log_spread: str


class TextEncoder:
    """Adds the text encoder to a graph.

    Args:
        graph: to add to.
        weights: of the voice.
        sizes: of the network.
        mask: [1, 1, T, 1], 1 for frames that count and 0 for others.
        mask_signal: the same as [1, 1, 1, T].
    """

    def __init__(
        self,
        graph: GraphBuilder,
        weights: Weights,
        sizes: NetworkSizes,
        mask: str,
        mask_signal: str,
    ) -> None:
        self._graph = graph
        self._weights = weights
        self._sizes = sizes
        self._mask = mask
        self._mask_signal = mask_signal

    def add(self, features: str, pitch: str | None, feature_size: int) -> Prior:
        """Add all of it.

        Args:
            features: [1, T, F].
            pitch: int64 [1, T], 0 to 255, or None.
            feature_size: F.
        """
        graph, hidden = self._graph, self._sizes.hidden_channels
        x = self._embedded(features, pitch, feature_size)
        x = graph.node("Unsqueeze", x, graph.sizes(1))
        x = graph.node("Mul", x, self._mask)
        # A column that is masked loses so much that the softmax leaves nothing of it.
        missing = graph.node("Sub", self._mask_signal, graph.number(1.0))
        bias = graph.node("Mul", missing, graph.number(_MASKED))
        for layer in range(self._sizes.layers):
            attended = self._attention(f"enc_p.encoder.attn_layers.{layer}", x, bias)
            x = self._normalised(f"enc_p.encoder.norm_layers_1.{layer}", x, attended)
            forwarded = self._feed_forward(f"enc_p.encoder.ffn_layers.{layer}", x)
            x = self._normalised(f"enc_p.encoder.norm_layers_2.{layer}", x, forwarded)
        x = graph.node("Mul", x, self._mask)
        inter = self._sizes.inter_channels
        weight = self._weights.take("enc_p.proj.weight", 2 * inter, hidden, 1)
        stats = self._linear(x, weight[:, :, 0], self._weights.take("enc_p.proj.bias", 2 * inter))
        stats = graph.node("Transpose", stats, perm=[0, 3, 1, 2])
        split = graph.sizes(inter, inter)
        mean, log_spread = graph.nodes("Split", [stats, split], 2, axis=1)
        return Prior(mean, log_spread)

    def _embedded(self, features: str, pitch: str | None, feature_size: int) -> str:
        graph, hidden = self._graph, self._sizes.hidden_channels
        # The factor after the sum goes into both tables.
        factor = np.float32(math.sqrt(hidden))
        weight = self._weights.take("enc_p.emb_phone.weight", hidden, feature_size) * factor
        bias = self._weights.take("enc_p.emb_phone.bias", hidden) * factor
        x = self._linear(features, weight, bias)
        if pitch is not None:
            table = self._weights.take("enc_p.emb_pitch.weight", PITCHES, hidden) * factor
            x = graph.node("Add", x, graph.node("Gather", graph.constant(table), pitch, axis=0))
        return graph.node("LeakyRelu", x, alpha=_SLOPE)

    def _linear(self, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        graph = self._graph
        product = graph.node("MatMul", x, graph.constant(np.ascontiguousarray(weight.T)))
        return graph.node("Add", product, graph.constant(bias))

    def _projection(self, name: str, x: str, factor: float = 1.0) -> str:
        hidden = self._sizes.hidden_channels
        weight = self._weights.take(f"{name}.weight", hidden, hidden, 1)[:, :, 0]
        bias = self._weights.take(f"{name}.bias", hidden)
        scale = np.float32(factor)
        return self._linear(x, weight * scale, bias * scale)

    def _attention(self, name: str, x: str, bias: str) -> str:
        """[1, 1, T, H] -> [1, 1, T, H]."""
        graph, heads = self._graph, self._sizes.heads
        depth = self._sizes.hidden_channels // heads
        split = graph.sizes(0, -1, heads, depth)

        def per_head(projected: str, axes: list[int]) -> str:
            return graph.node("Transpose", graph.node("Reshape", projected, split), perm=axes)

        query = self._projection(f"{name}.conv_q", x, 1 / math.sqrt(depth))
        query = per_head(query, [0, 2, 1, 3])
        keys = per_head(self._projection(f"{name}.conv_k", x), [0, 2, 3, 1])
        values = per_head(self._projection(f"{name}.conv_v", x), [0, 2, 1, 3])
        near_keys = self._weights.take(f"{name}.emb_rel_k", 1, None, depth)[0]
        near_values = self._weights.take(f"{name}.emb_rel_v", 1, len(near_keys), depth)[0]
        scores = graph.node("MatMul", query, keys)
        near = graph.node("MatMul", query, graph.constant(np.ascontiguousarray(near_keys.T)))
        scores = graph.node("Add", scores, self._as_band(near, len(near_keys)))
        shares = graph.node("Softmax", graph.node("Add", scores, bias), axis=-1)
        near_shares = self._from_band(shares, len(near_keys))
        mixed = graph.node(
            "Add",
            graph.node("MatMul", shares, values),
            graph.node("MatMul", near_shares, graph.constant(near_values)),
        )
        together = graph.node("Transpose", mixed, perm=[0, 2, 1, 3])
        together = graph.node("Reshape", together, graph.sizes(1, 1, -1, heads * depth))
        return self._projection(f"{name}.conv_o", together)

    def _length(self) -> str:
        return self._graph.node("Shape", self._mask, start=2, end=3)

    def _as_band(self, near: str, width: int) -> str:
        """Lay [1, H, T, W] out as a band of [1, H, T, T]."""
        graph, heads = self._graph, self._sizes.heads
        length = self._length()
        flat = self._padded_rows(near, graph.sizes(0), length)
        flat = graph.node("Reshape", flat, graph.sizes(1, heads, -1))
        # Without its last T elements it has T rows that are one element shorter.
        flat = graph.node("Slice", flat, graph.sizes(0), graph.node("Neg", length), graph.sizes(2))
        rows = graph.node("Add", length, graph.sizes(width - 1))
        shape = graph.node("Concat", graph.sizes(1, heads, -1), rows, axis=0)
        skewed = graph.node("Reshape", flat, shape)
        reach = width // 2
        end = graph.node("Add", length, graph.sizes(reach))
        return graph.node("Slice", skewed, graph.sizes(reach), end, graph.sizes(3))

    def _from_band(self, shares: str, width: int) -> str:
        """Take the band [1, H, T, W] out of [1, H, T, T]."""
        graph, heads = self._graph, self._sizes.heads
        length, reach = self._length(), width // 2
        wide = self._padded_rows(shares, graph.sizes(reach), graph.sizes(reach))
        flat = graph.node("Reshape", wide, graph.sizes(1, heads, -1))
        none = graph.sizes(0, 0, 0, 0, 0)
        flat = graph.node("Pad", flat, graph.node("Concat", none, length, axis=0))
        rows = graph.node("Add", length, graph.sizes(width))
        shape = graph.node("Concat", graph.sizes(1, heads, -1), rows, axis=0)
        straight = graph.node("Reshape", flat, shape)
        return graph.node("Slice", straight, graph.sizes(0), graph.sizes(width), graph.sizes(3))

    def _padded_rows(self, x: str, before: str, after: str) -> str:
        """Pad the last of four axes with zeros."""
        graph = self._graph
        none = graph.sizes(0, 0, 0)
        return graph.node("Pad", x, graph.node("Concat", none, before, none, after, axis=0))

    def _feed_forward(self, name: str, x: str) -> str:
        """[1, 1, T, H] -> [1, 1, T, H], by two convolutions over time."""
        graph, sizes = self._graph, self._sizes
        hidden, inner, kernel = sizes.hidden_channels, sizes.filter_channels, sizes.kernel_size
        before, after = (kernel - 1) // 2, kernel // 2
        signal = graph.node("Transpose", graph.node("Mul", x, self._mask), perm=[0, 3, 1, 2])
        signal = convolution(
            graph,
            signal,
            self._weights.take(f"{name}.conv_1.weight", inner, hidden, kernel),
            self._weights.take(f"{name}.conv_1.bias", inner),
            padding=(before, after),
        )
        signal = graph.node("Mul", graph.node("Relu", signal), self._mask_signal)
        signal = convolution(
            graph,
            signal,
            self._weights.take(f"{name}.conv_2.weight", hidden, inner, kernel),
            self._weights.take(f"{name}.conv_2.bias", hidden),
            padding=(before, after),
        )
        return graph.node("Mul", graph.node("Transpose", signal, perm=[0, 2, 3, 1]), self._mask)

    def _normalised(self, name: str, x: str, change: str) -> str:
        graph, hidden = self._graph, self._sizes.hidden_channels
        return graph.node(
            "LayerNormalization",
            graph.node("Add", x, change),
            graph.constant(self._weights.take(f"{name}.gamma", hidden)),
            graph.constant(self._weights.take(f"{name}.beta", hidden)),
            axis=-1,
            epsilon=_EPSILON,
        )
