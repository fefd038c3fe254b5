"""The owner's spectral envelopes as the coefficients that the network speaks."""

import warnings
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from training.decoder.network import CEPSTRUM_SIZE, warped_axis
from training.decoder.network import TARGET_RATE as AXIS_RATE
from training.recordings.choosing.screening import Utterance
from training.sound.features import Floats

with warnings.catch_warnings():
    # It asks setuptools for its own version, which setuptools has come to warn of.
    warnings.simplefilter("ignore")
    import pyworld

FRAME_SECONDS = 0.01
_POINTS = 256
_FLOOR = 1e-9
_EDGE_SHARE = 0.95
_EDGE_HZ = 1_000.0
_DROP_DB = -60.0
_FALL_PER_OCTAVE = 12.0


class Envelopes:
    """Computes coefficients of envelopes at one sample rate.

    Args:
        rate: of the recordings in Hz.
        highest_hz: above it the recordings hold nothing, whatever their sample rate; half the
            sample rate if None.
    """

    def __init__(self, rate: int, highest_hz: float | None = None) -> None:
        self._rate = rate
        self._edge = _EDGE_SHARE * min(rate / 2, highest_hz or rate / 2)

    def of(self, wave: Floats, hertz: Floats) -> Floats:
        """Coefficients of a mel-generalised cepstrum (gamma 0, warping 0.55 at 48 kHz).

        Analysis by CheapTrick (M. Morise, "CheapTrick, a spectral envelope estimator for
        high-quality speech synthesis", Speech Communication 67, 2015). Where the recording has
        nothing, the envelope goes on from its highest part, falling by 12 dB per octave.

        Args:
            wave: float32 [N].
            hertz: f0 in frames of 10 ms, 0 where unvoiced, float32 [T].

        Returns:
            float32 [T, 35].
        """
        samples = np.ascontiguousarray(wave, np.float64)
        times = np.arange(len(hertz)) * FRAME_SECONDS
        power = pyworld.cheaptrick(samples, hertz.astype(np.float64), times, self._rate)
        log = 0.5 * np.log(power + _FLOOR * power.mean())
        on_axis = self._on_axis(log)
        result: Floats = (on_axis @ self._cosines).astype(np.float32)
        return result

    def _on_axis(self, log: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log amplitude at points of the warped axis, [T, points]."""
        position = np.minimum(self._axis_hz, self._edge) * 2 / self._rate * (log.shape[1] - 1)
        below = np.minimum(position.astype(int), log.shape[1] - 2)
        share = position - below
        on_axis: NDArray[np.float64] = log[:, below] * (1 - share) + log[:, below + 1] * share
        beyond = self._axis_hz > self._edge
        first = round((self._edge - _EDGE_HZ) * 2 / self._rate * (log.shape[1] - 1))
        last = round(self._edge * 2 / self._rate * (log.shape[1] - 1))
        octaves = np.log2(self._axis_hz[beyond] / self._edge)
        fall = _FALL_PER_OCTAVE * np.log(10) / 20 * octaves
        on_axis[:, beyond] = log[:, first:last].mean(1, keepdims=True) - fall
        return on_axis

    @cached_property
    def _axis_hz(self) -> NDArray[np.float64]:
        """Frequencies of equally spaced points of the warped axis."""
        hertz = np.linspace(0, AXIS_RATE / 2, 4_096)
        warped = (np.arange(_POINTS) + 0.5) * np.pi / _POINTS
        return np.interp(warped, warped_axis(hertz), hertz)

    @cached_property
    def _cosines(self) -> NDArray[np.float64]:
        """From log amplitude on the axis to coefficients, [points, 35]."""
        warped = (np.arange(_POINTS) + 0.5) * np.pi / _POINTS
        cosines: NDArray[np.float64] = np.cos(np.outer(warped, np.arange(CEPSTRUM_SIZE)))
        cosines *= 2 / _POINTS
        cosines[:, 0] /= 2
        return cosines


def highest_frequency(utterance: Utterance) -> float:
    """The frequency in Hz above which speech holds nothing: a codec's or a converter's edge.

    Where the spectrum of its loudest moments falls 60 dB below its maximum for good.
    """
    size = 2_048
    wave = np.pad(utterance.samples, (0, max(0, size - len(utterance.samples))))
    frames = np.lib.stride_tricks.sliding_window_view(wave, size)[:: size // 2]
    power = np.percentile(np.abs(np.fft.rfft(frames * np.hanning(size))) ** 2, 95, axis=0)
    loud = np.flatnonzero(10 * np.log10(power / max(power.max(), 1e-20) + 1e-20) > _DROP_DB)
    return float((loud[-1] + 1) * utterance.rate / size) if len(loud) else utterance.rate / 2
