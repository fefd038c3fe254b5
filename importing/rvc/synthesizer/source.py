"""The source: a sine of the pitch where there is one, and noise.

The neural source-filter model's source (Wang et al., "Neural Source-Filter Waveform Models", 2019;
RVC, infer/lib/infer_pack/models.py, `SineGen` and `SourceModuleHnNSF`): a sine of amplitude 0.1
with noise of 0.003 in voiced frames, noise of 0.1 / 3 in unvoiced ones.

The phase is a running sum over minutes of samples. It is kept in double precision, and whole turns
are taken away per frame, so that it stays as exact at the end as at the beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from importing.files.graph_builder import DOUBLE, FLOAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from importing.files.graph_builder import GraphBuilder

_SINE_AMPLITUDE = 0.1
_VOICED_NOISE = 0.003
_UNVOICED_NOISE = _SINE_AMPLITUDE / 3


class Source:
    """Adds the source to a graph.

    Args:
        graph: to add to.
        hop: samples per frame.
        sample_rate: in Hz.
        weight: [1, H], how the H harmonics are mixed.
        bias: [1].
    """

    def __init__(
        self,
        graph: GraphBuilder,
        hop: int,
        sample_rate: int,
        weight: NDArray[np.float32],
        bias: NDArray[np.float32],
    ) -> None:
        self._graph = graph
        self._hop = hop
        self._sample_rate = sample_rate
        self._weight = weight
        self._bias = bias
        self._harmonics = weight.shape[1]

    def add(self, hertz: str, noise: str) -> str:
        """Add all of it.

        Args:
            hertz: float32 [1, T], 0 in unvoiced frames.
            noise: float32 [1, T * hop, H], of unit variance.

        Returns:
            [1, 1, 1, T * hop].
        """
        graph = self._graph
        frames = graph.node("Unsqueeze", hertz, graph.sizes(2))
        is_voiced = graph.node("Greater", frames, graph.number(0.0))
        sine = graph.node("Mul", self._sines(frames), self._per_sample(is_voiced, _SINE_AMPLITUDE))
        level = self._per_sample(is_voiced, _VOICED_NOISE, _UNVOICED_NOISE)
        waves = graph.node("Add", sine, graph.node("Mul", level, noise))
        mixed = graph.node("MatMul", waves, graph.constant(np.ascontiguousarray(self._weight.T)))
        mixed = graph.node("Tanh", graph.node("Add", mixed, graph.constant(self._bias)))
        return graph.node("Reshape", mixed, graph.sizes(1, 1, 1, -1))

    def _sines(self, frames: str) -> str:
        """[1, T, 1] in Hz -> [1, T * hop, H]."""
        graph = self._graph
        turns = graph.node("Div", frames, graph.number(self._sample_rate))
        turns = graph.node("Cast", turns, to=DOUBLE)
        ramp = graph.constant(np.arange(1, self._hop + 1, dtype=np.float64).reshape(1, 1, -1))
        within = graph.node("Mul", turns, ramp)
        whole = graph.node("Mul", turns, graph.constant(np.array(self._hop, np.float64)))
        axis = graph.constant(np.array(1, np.int64))
        before = graph.node("CumSum", self._fraction(whole), axis, exclusive=1)
        phase = graph.node("Add", within, before)
        phase = graph.node("Reshape", phase, graph.sizes(1, -1, 1))
        orders = np.arange(1, self._harmonics + 1, dtype=np.float64).reshape(1, 1, -1)
        if self._harmonics > 1:
            phase = graph.node("Mul", self._fraction(phase), graph.constant(orders))
        phase = graph.node("Cast", self._fraction(phase), to=FLOAT)
        return graph.node("Sin", graph.node("Mul", phase, graph.number(2 * np.pi)))

    def _fraction(self, turns: str) -> str:
        return self._graph.node("Sub", turns, self._graph.node("Floor", turns))

    def _per_sample(self, is_voiced: str, voiced: float, unvoiced: float = 0.0) -> str:
        """Return one value for voiced and one for unvoiced frames, at every sample."""
        graph = self._graph
        values = graph.node("Where", is_voiced, graph.number(voiced), graph.number(unvoiced))
        spread = graph.node("Tile", values, graph.sizes(1, 1, self._hop))
        return graph.node("Reshape", spread, graph.sizes(1, -1, 1))
