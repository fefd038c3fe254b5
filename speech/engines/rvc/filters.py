"""The high-pass filter that RVC applies to recordings, in training and in conversion."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array64 = NDArray[np.float64]
Complex = NDArray[np.complex128]

_ORDER = 5
_CUTOFF_HZ = 48
_SAMPLE_RATE = 16_000
_EDGE = 3 * (_ORDER + 1)  # samples by which either end is continued
_BLOCK = 160
_HIGHEST_PEAK = 0.95


def high_pass(samples: NDArray[np.floating]) -> Array64:
    """Remove what lies below 48 Hz, without a shift in phase.

    A Butterworth filter of order 5 runs forward and backward. Either end is continued by up to 18
    samples, mirrored through its last sample, and both passes begin in the state into which their
    first sample has settled (see Gustafsson, "Determining the initial states in forward-backward
    filtering", 1996). For recordings of at least 19 samples the result equals
    that of SciPy's `filtfilt(*butter(5, 48, "high", fs=16000))`; shorter ones are continued by
    less.

    Args:
        samples: mono audio at 16 kHz, [N].

    Returns:
        float64 [N].
    """
    wave = np.asarray(samples, np.float64)
    edge = min(_EDGE, len(wave) - 1)
    if edge < 1:
        return np.zeros(len(wave))
    before = 2 * wave[0] - wave[edge:0:-1]
    after = 2 * wave[-1] - wave[-2 : -edge - 2 : -1]
    butterworth = _butterworth()
    forward = butterworth.run(np.concatenate([before, wave, after]))
    backward = butterworth.run(forward[::-1])[::-1]
    return backward[edge : edge + len(wave)]


@dataclass(frozen=True)
class _BlockFilter:
    """A filter as the sum of first-order ones, worked out for a block of B samples at once.

    The sum of first-order filters keeps its precision although the poles lie close to each other
    and to 1; the states of the filter's direct form would lose it over a block.

    Attributes:
        response: from a block's input to its output, lower triangular [B, B].
        to_state: from a block's input to the states after it [B, P].
        from_state: from the states before a block to its output, of which the real part counts
            [P, B].
        decay: of the states over a block [P].
        settled: the states after an endless input of ones [P].
    """

    response: Array64
    to_state: Complex
    from_state: Complex
    decay: Complex
    settled: Complex

    def run(self, samples: Array64) -> Array64:
        """Filter samples [N] forward, from the states into which the first one has settled."""
        blocks = -(-len(samples) // _BLOCK)
        padded = np.zeros(blocks * _BLOCK)
        padded[: len(samples)] = samples
        inputs = padded.reshape(blocks, _BLOCK)
        driven = inputs @ self.to_state
        states = np.empty_like(driven)
        state = self.settled * samples[0]
        for index in range(blocks):
            states[index] = state
            state = self.decay * state + driven[index]
        filtered: Array64 = inputs @ self.response.T + (states @ self.from_state).real
        return filtered.ravel()[: len(samples)]


@lru_cache(maxsize=1)
def _butterworth() -> _BlockFilter:
    """Design the filter by the bilinear transform and split it into partial fractions."""
    angles = np.pi * (np.arange(_ORDER) - (_ORDER - 1) / 2) / _ORDER
    analogue = -np.tan(np.pi * _CUTOFF_HZ / _SAMPLE_RATE) * np.exp(1j * angles)
    poles = (1 + analogue) / (1 - analogue)
    gain = float(np.prod(1 / (1 - analogue)).real)
    others = np.subtract.outer(poles, poles) + np.eye(_ORDER)
    residues = gain * (poles - 1) ** _ORDER / np.prod(others, axis=1)
    steps = np.arange(_BLOCK)
    powers = poles[:, None] ** steps
    impulse = np.concatenate([[gain], (residues @ powers).real[:-1]])
    lags = np.subtract.outer(steps, steps)
    return _BlockFilter(
        response=np.where(lags >= 0, impulse[lags], 0.0),
        to_state=powers[:, ::-1].T,
        from_state=residues[:, None] * powers,
        decay=poles**_BLOCK,
        settled=1 / (1 - poles),
    )


def divide_peak(audio: NDArray[np.floating]) -> NDArray[np.floating]:
    """Turn a recording down whose peak is above 0.95, as the original tools do."""
    return audio / max(float(np.abs(audio).max(initial=0.0)) / _HIGHEST_PEAK, 1.0)
