"""Measures how far two voices that say the same at the same time are apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from shared.speech.signal.sound import Samples

RATE: Final = 24_000
_HOP: Final = 240
_WINDOW: Final = 1_024
_BANDS: Final = 40
_LOWEST_HZ: Final = 80.0
_HIGHEST_HZ: Final = 11_000.0
_AUDIBLE: Final = 1e-4  # of the loudest frame's power
_FLOOR: Final = 1e-5  # of the loudest band's power
_FIRST_FRAMES: Final = 100


class Distance(NamedTuple):
    """Distances in dB, in the first second of speech and after it.

    Of the spectral envelopes without their level: the mean over frames of the root mean square over
    40 mel bands. Of the levels: the root mean square over frames.
    """

    envelope_first: float
    envelope_after: float
    level_after: float


def distance(wanted: Samples, found: Samples) -> Distance:
    """Compare two voices of at least two seconds at 24 kHz, float32 [N], in the loud frames."""
    first, second = _bands(wanted), _bands(found)
    power = first.sum(axis=1)
    loud = np.flatnonzero(power > _AUDIBLE * power.max())
    floor = _FLOOR * first.max()
    apart = 10 * (np.log10(first[loud] + floor) - np.log10(second[loud] + floor))
    level = apart.mean(axis=1)
    envelope = np.sqrt(np.square(apart - level[:, None]).mean(axis=1))
    is_first = loud < loud[0] + _FIRST_FRAMES
    return Distance(
        float(envelope[is_first].mean()),
        float(envelope[~is_first].mean()),
        float(np.sqrt(np.square(level[~is_first]).mean())),
    )


def _bands(samples: Samples) -> npt.NDArray[np.float64]:
    """Return the power in mel bands every 10 ms."""
    padded = np.pad(samples.astype(np.float64), _WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(_WINDOW))))
    bands: npt.NDArray[np.float64] = power @ _mel_filters().T
    return bands


def _mel_filters() -> npt.NDArray[np.float64]:
    hertz = np.arange(_WINDOW // 2 + 1) * RATE / _WINDOW
    lowest, highest = (2595 * np.log10(1 + end / 700) for end in (_LOWEST_HZ, _HIGHEST_HZ))
    corners = 700 * (10 ** (np.linspace(lowest, highest, _BANDS + 2) / 2595) - 1)
    low, centre, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    filters = np.minimum((hertz - low) / (centre - low), (high - hertz) / (high - centre))
    filters = np.maximum(filters, 0.0)
    unit_sum: npt.NDArray[np.float64] = filters / filters.sum(axis=1, keepdims=True)
    return unit_sum
