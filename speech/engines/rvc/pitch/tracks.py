"""The pitch as RVC synthesizers take it: in hertz, and as a coarse number from 1 to 255."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Unvoiced = Literal["zero", "fill"]

_LOWEST_HZ, _HIGHEST_HZ = 50.0, 1_100.0
_NUMBERS = 255


@dataclass(frozen=True)
class Contour:
    """The pitch of T frames of 10 ms.

    Attributes:
        hertz: fundamental frequency, 0 where a frame is unvoiced, float32 [T].
        coarse: the number of its step on the mel scale, 1 to 255, int64 [T].
    """

    hertz: Array
    coarse: NDArray[np.int64]

    def cut(self, first: int, last: int) -> "Contour":
        """Keep the frames from `first` up to, but not including, `last`."""
        return Contour(self.hertz[first:last], self.coarse[first:last])


def contour(hertz: Array) -> Contour:
    """Describe a fundamental frequency as the synthesizer wants it.

    The coarse number runs from 1 to 255 in even steps on the mel scale 1127 ln(1 + f / 700), from
    50 Hz to 1100 Hz; what lies beyond, and what is unvoiced, gets the nearest number.

    Args:
        hertz: 0 where a frame is unvoiced, float32 [T].
    """
    hertz = np.asarray(hertz, np.float32)
    lowest, highest = _mel(np.array([_LOWEST_HZ, _HIGHEST_HZ]))
    steps = (_mel(hertz) - lowest) * (_NUMBERS - 1) / (highest - lowest) + 1
    return Contour(hertz, np.rint(np.clip(steps, 1, _NUMBERS)).astype(np.int64))


def shift(hertz: Array, semitones: float) -> Array:
    """Move a fundamental frequency by semitones; 0 stays 0."""
    moved: Array = (hertz * np.float32(2.0 ** (semitones / 12))).astype(np.float32)
    return moved


def fill_unvoiced(hertz: Array) -> Array:
    """Give unvoiced frames the frequency on the straight line between their voiced neighbours.

    Before the first and after the last voiced frame the nearest one's frequency holds. Where no
    frame is voiced all stay 0.
    """
    voiced = np.flatnonzero(hertz > 0)
    if len(voiced) == 0:
        return hertz
    return np.interp(np.arange(len(hertz)), voiced, hertz[voiced]).astype(np.float32)


def _mel(hertz: NDArray[np.floating]) -> NDArray[np.floating]:
    mel: NDArray[np.floating] = 1127 * np.log(1 + hertz / 700)
    return mel
