"""The flow, run backwards: a sample of the prior to what the decoder speaks.

Coupling layers of VITS (Kim et al., "Conditional Variational Autoencoder with Adversarial Learning
for End-to-End Text-to-Speech", 2021; RVC, infer/lib/infer_pack/models.py, `ResidualCouplingBlock`)
that only shift. Between them the order of the channels is reversed; here the channels stay where
they are, and the weights of every other layer are reversed instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from importing.rvc.synthesizer.layers import Weights, centred, convolution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from importing.files.graph_builder import GraphBuilder
    from importing.rvc.checkpoint.voice_config import NetworkSizes

LAYERS = 4
_KERNEL = 5
_CONVOLUTIONS = 3


class Speakers:
    """The part of the network that knows who speaks, worked out per speaker.

    Args:
        graph: to add to.
        embeddings: [S, G], one row per speaker.
        speaker: int64 [1], the number of the row.
    """

    def __init__(self, graph: GraphBuilder, embeddings: NDArray[np.float32], speaker: str) -> None:
        self._graph = graph
        self._embeddings = embeddings.astype(np.float64)
        self._speaker = speaker

    def vector(self, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        """Add a linear layer of the speaker's embedding, as a table with a row per speaker.

        Args:
            graph: to add to.
            weight: [D, G, 1].
            bias: [D].

        Returns:
            [1, D, 1, 1].
        """
        table = self._embeddings @ weight[:, :, 0].T.astype(np.float64) + bias
        graph = self._graph
        rows = graph.constant(table.astype(np.float32)[:, :, None, None])
        return graph.node("Gather", rows, self._speaker, axis=0)


class Flow:
    """Adds the flow to a graph.

    Args:
        graph: to add to.
        weights: of the voice.
        sizes: of the network.
        mask: [1, 1, 1, T], 1 for frames that count and 0 for others.
        speakers: who speaks.
    """

    def __init__(
        self,
        graph: GraphBuilder,
        weights: Weights,
        sizes: NetworkSizes,
        mask: str,
        speakers: Speakers,
    ) -> None:
        self._graph = graph
        self._weights = weights
        self._hidden = sizes.hidden_channels
        self._half = sizes.inter_channels // 2
        self._mask = mask
        self._speakers = speakers

    def add(self, sample: str) -> str:
        """Add all of it: [1, C, 1, T] -> [1, C, 1, T]."""
        graph = self._graph
        split = graph.sizes(self._half, self._half)
        first, second = graph.nodes("Split", [sample, split], 2, axis=1)
        for layer in reversed(range(LAYERS)):
            name = f"flow.flows.{2 * layer}"
            if layer % 2:
                first = self._shifted(name, first, by=second, is_reversed=True)
            else:
                second = self._shifted(name, second, by=first, is_reversed=False)
        return graph.node("Concat", first, second, axis=1)

    def _shifted(self, name: str, signal: str, *, by: str, is_reversed: bool) -> str:
        """Take back what a layer has added to one half of the channels, given the other half."""
        graph, half, hidden = self._graph, self._half, self._hidden
        order = slice(None, None, -1 if is_reversed else 1)
        weight = self._weights.take(f"{name}.pre.weight", hidden, half, 1)[:, order]
        inner = convolution(graph, by, weight, self._weights.take(f"{name}.pre.bias", hidden))
        inner = self._wave_net(f"{name}.enc", graph.node("Mul", inner, self._mask))
        weight = self._weights.take(f"{name}.post.weight", half, hidden, 1)[order]
        bias = self._weights.take(f"{name}.post.bias", half)[order]
        shift = graph.node("Mul", convolution(graph, inner, weight, bias), self._mask)
        return graph.node("Mul", graph.node("Sub", signal, shift), self._mask)

    def _wave_net(self, name: str, x: str) -> str:
        """Gated convolutions with skip connections (van den Oord et al., "WaveNet", 2016)."""
        graph, hidden = self._graph, self._hidden
        width = 2 * hidden
        speakers = self._conditions(name)
        halves = graph.sizes(hidden, hidden)
        skipped = []
        for layer in range(_CONVOLUTIONS):
            inner = convolution(
                graph,
                x,
                self._weights.take(f"{name}.in_layers.{layer}.weight", width, hidden, _KERNEL),
                self._weights.take(f"{name}.in_layers.{layer}.bias", width),
                padding=centred(_KERNEL),
            )
            inner = graph.node("Add", inner, speakers[layer])
            value, gate = graph.nodes("Split", [inner, halves], 2, axis=1)
            gated = graph.node("Mul", graph.node("Tanh", value), graph.node("Sigmoid", gate))
            is_last = layer == _CONVOLUTIONS - 1
            rows = hidden if is_last else width
            onward = convolution(
                graph,
                gated,
                self._weights.take(f"{name}.res_skip_layers.{layer}.weight", rows, hidden, 1),
                self._weights.take(f"{name}.res_skip_layers.{layer}.bias", rows),
            )
            if not is_last:
                change, onward = graph.nodes("Split", [onward, halves], 2, axis=1)
                x = graph.node("Mul", graph.node("Add", x, change), self._mask)
            skipped.append(onward)
        total = graph.node("Add", graph.node("Add", skipped[0], skipped[1]), skipped[2])
        return graph.node("Mul", total, self._mask)

    def _conditions(self, name: str) -> list[str]:
        graph, width = self._graph, 2 * self._hidden
        weight = self._weights.take(f"{name}.cond_layer.weight", width * _CONVOLUTIONS, None, 1)
        bias = self._weights.take(f"{name}.cond_layer.bias", width * _CONVOLUTIONS)
        vector = self._speakers.vector(weight, bias)
        split = graph.sizes(*[width] * _CONVOLUTIONS)
        return graph.nodes("Split", [vector, split], _CONVOLUTIONS, axis=1)
