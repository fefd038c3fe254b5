"""Gives a voice the long-term spectrum back that its conversions lack.

A decoder learns the mean of logarithms. Where a sound varies, as a hiss does, the power of that
mean is less than the mean power, so that conversions have too little above 2 kHz. What lacks on
average is the same for all that the voice says, and is added to the mean of the cepstra.
"""

from collections.abc import Sequence

import numpy as np
import scipy.signal
import torch
from numpy.typing import NDArray

from training.decoder.network import OUTPUT_RATE, Network, warped_axis
from training.sound.features import Floats

_BANDS = 48
_FFT = 1_024
_LOUD = 0.03
_FLOOR = 1e-12
_RECORDED = 0.92  # of half the rate: what is left of it by filters that are not steep
_MOST = float(np.log(4))  # 12 dB
_STIFFNESS = 0.3


def _auditory_axis(lowest: float, highest: float, points: int) -> NDArray[np.float64]:
    """Hertz of points that lie evenly on Slaney's mel scale: linear to 1 kHz, then logarithmic."""
    step = np.log(6.4) / 27
    low, high = (
        hertz * 3 / 200 if hertz < 1_000 else 15 + np.log(hertz / 1_000) / step
        for hertz in (lowest, highest)
    )
    even = np.linspace(low, high, points)
    result: NDArray[np.float64] = np.where(
        even < 15, even * 200 / 3, 1_000 * np.exp((even - 15) * step)
    )
    return result


_EDGES = _auditory_axis(50, 11_900, _BANDS + 1)


def lacking(
    recordings: Sequence[Floats], conversions: Sequence[Floats], rate: int = OUTPUT_RATE
) -> NDArray[np.float64]:
    """What conversions lack on average: log amplitude in 48 bands of a mel axis to 12 kHz.

    It is at most 12 dB, and nothing where the recordings have nothing.

    Args:
        recordings: of the voice itself, float32 at 24 kHz.
        conversions: of each of them to the same voice, as long.
        rate: that the recordings were made at, in Hz.
    """
    pairs = zip(recordings, conversions, strict=True)
    wanted, found = np.mean([_band_powers(*pair) for pair in pairs], 0)
    difference: NDArray[np.float64] = np.log((wanted + _FLOOR) / (found + _FLOOR)) / 2
    difference -= difference[: _BANDS // 2].mean()
    difference[_EDGES[1:] > _RECORDED * rate / 2] = 0
    return difference.clip(-_MOST, _MOST)


def _band_powers(recording: Floats, conversion: Floats) -> tuple[NDArray[np.float64], ...]:
    """Mean power of both in each band, where the recording is loud."""
    both = [_bands(recording), _bands(conversion)]
    loudness = (both[0] / np.diff(_EDGES)[:, None]).sum(0)
    is_loud = loudness > _LOUD * np.percentile(loudness, 95)
    return tuple(bands[:, is_loud].mean(1) for bands in both)


def _bands(wave: Floats) -> NDArray[np.float64]:
    """Power of each frame [bands, frames], the level of the whole aside."""
    level = np.sqrt(float((wave.astype(np.float64) ** 2).mean()) + _FLOOR)
    hertz, _, spectra = scipy.signal.stft(wave / level, OUTPUT_RATE, nperseg=_FFT)
    below = np.cumsum(np.abs(spectra) ** 2, 0)
    return np.diff(np.array([np.interp(_EDGES, hertz, frame) for frame in below.T]).T, axis=0)


def give_back(network: Network, lacks: NDArray[np.float64]) -> None:
    """Add to what a network speaks, in place, what its conversions lack; loudness stays.

    Args:
        network: trained.
        lacks: see `lacking`.
    """
    order = np.arange(len(network.cepstrum_mean))[1:, None]
    axis = np.cos(order * warped_axis((_EDGES[1:] + _EDGES[:-1]) / 2))
    stiff = axis @ axis.T + _STIFFNESS * np.eye(len(axis))
    added = np.linalg.solve(stiff, axis @ lacks)
    network.cepstrum_mean[1:] += torch.tensor(added, dtype=torch.float32)
