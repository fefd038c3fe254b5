"""The noise in a voice: stored once, and read in a loop, which is faster than drawing it."""

import numpy as np
from numpy.random import default_rng  # imported here, because numpy loads it lazily

from speech.signal.arrays import Samples

_SEED = 0
_SECONDS = 8  # longer than most recordings; a listener does not notice the repetition


def draw_noise(sample_rate: int) -> Samples:
    """Draw the standard normal noise that all conversions at a sample rate read from."""
    return default_rng(_SEED).standard_normal(_SECONDS * sample_rate, np.float32)


class Noise:
    """The noise of one conversion.

    Args:
        stored: see draw_noise.
        seed: of the conversion; it says where in the stored noise the conversion's begins.
    """

    def __init__(self, stored: Samples, seed: int) -> None:
        self._stored = stored
        self._begin = int(default_rng(seed).integers(len(stored)))

    def read(self, begin: int, count: int) -> Samples:
        """Return `count` values from number `begin` on, which may be below 0."""
        first = (self._begin + begin) % len(self._stored)
        laps = (first + count) // len(self._stored)
        return np.concatenate([self._stored[first:], *[self._stored] * laps])[:count]
