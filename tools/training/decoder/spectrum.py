"""Restore the long-term spectrum that conversions lack.

A decoder learns the mean of logarithms. Where a sound varies, as a hiss does, the power of that
mean is less than the mean power, so that conversions have too little above 2 kHz. What lacks on
average is the same for all that the voice says, and is added to the mean of the cepstra.
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy.signal
import torch
from numpy.typing import NDArray
from torch import Tensor

from tools.training.decoder.features import Floats
from tools.training.decoder.network import CEPSTRUM_SIZE, OUTPUT_RATE, Network, warped_axis

_BANDS = 48
_FFT = 1_024
_LOUD = 0.03
_FLOOR = 1e-12
_RECORDED = 0.92  # of half the rate: what is left of it by filters that are not steep
_MOST = float(np.log(4))  # 12 dB
_STIFFNESS = 0.3


# Edges of bands that are evenly wide on Slaney's mel scale: linear to 1 kHz, then logarithmic.
_STEP = np.log(6.4) / 27
_MELS = np.linspace(50 * 3 / 200, 15 + np.log(11.9) / _STEP, _BANDS + 1)
_EDGES = np.where(_MELS < 15, _MELS * 200 / 3, 1_000 * np.exp((_MELS - 15) * _STEP))


def lacking(
    recordings: Sequence[Floats], conversions: Sequence[Floats], rate: int = OUTPUT_RATE
) -> NDArray[np.float64]:
    """Compute the mean lack of conversions: log amplitude in 48 mel bands to 12 kHz.

    It is at most 12 dB, and nothing where the recordings have nothing, which were made at `rate`
    in Hz. All are float32 at 24 kHz.
    """
    pairs = zip(recordings, conversions, strict=True)
    wanted, found = np.mean([band_powers(*pair) for pair in pairs], 0)
    difference: NDArray[np.float64] = np.log((wanted + _FLOOR) / (found + _FLOOR)) / 2
    difference -= difference[: _BANDS // 2].mean()
    difference[_EDGES[1:] > _RECORDED * rate / 2] = 0
    return difference.clip(-_MOST, _MOST)


def band_powers(recording: Floats, conversion: Floats) -> tuple[NDArray[np.float64], ...]:
    both = [powers_in_bands(recording), powers_in_bands(conversion)]
    loudness = (both[0] / np.diff(_EDGES)[:, None]).sum(0)
    is_loud = loudness > _LOUD * np.percentile(loudness, 95)
    return tuple(bands[:, is_loud].mean(1) for bands in both)


def powers_in_bands(wave: Floats) -> NDArray[np.float64]:
    level = np.sqrt(float((wave.astype(np.float64) ** 2).mean()) + _FLOOR)
    hertz, _, spectra = scipy.signal.stft(wave / level, OUTPUT_RATE, nperseg=_FFT)
    below = np.cumsum(np.abs(spectra) ** 2, 0)
    return np.diff(np.array([np.interp(_EDGES, hertz, frame) for frame in below.T]).T, axis=0)


def give_back(network: Network, lacks: NDArray[np.float64]) -> None:
    order = np.arange(len(network.cepstrum_mean))[1:, None]
    axis = np.cos(order * warped_axis((_EDGES[1:] + _EDGES[:-1]) / 2))
    stiff = axis @ axis.T + _STIFFNESS * np.eye(len(axis))
    added = np.linalg.solve(stiff, axis @ lacks)
    network.cepstrum_mean[1:] += torch.tensor(added, dtype=torch.float32)


SHARE = 0.8


def widen(
    network: Network, found: NDArray[np.float32], target: NDArray[np.float32], share: float = SHARE
) -> None:
    """Scale the network's output, in place, by a share of what its variance lacks.

    Args:
        found: cepstra that it speaks, float32 [frames, 35].
        target: those that it should have spoken.
        share: 0 leaves the network as it is, 1 makes the variances equal.
    """
    factor = torch.from_numpy(1 + share * (target.std(0) / found.std(0) - 1))
    factor[0] = 1  # loudness is the speaker's
    mean = torch.from_numpy(found.mean(0))
    network.cepstrum_mean.copy_(mean + (network.cepstrum_mean - mean) * factor)
    network.cepstrum_spread.mul_(factor)


NEPERS_TO_DECIBELS = 20 / math.log(10)


def envelope_axis() -> NDArray[np.float64]:
    """Cosine matrix [35, 72] from a cepstrum to log amplitude on a mel-like axis to 12 kHz."""
    top = 2595 * np.log10(1 + OUTPUT_RATE / 2 / 700)
    hertz = 700 * (10 ** (np.linspace(0, top, 72) / 2595) - 1)
    result: NDArray[np.float64] = np.cos(np.arange(CEPSTRUM_SIZE)[:, None] * warped_axis(hertz))
    return result


def size_of(error: Tensor) -> Tensor:
    """Root mean square over the last axis; an error of 0 has a gradient, too."""
    return torch.sqrt((error * error).mean(-1) + 1e-6)
