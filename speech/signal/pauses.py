"""Tells when somebody who speaks makes a pause, while the speech comes."""

import numpy as np

from speech.signal.arrays import Samples
from speech.signal.levels import FRAMES_PER_SECOND

PAUSE_FRAMES = 80
"""So many quiet frames are a pause; after fewer, an engine may take it for a part of a word."""

_QUIET = 0.01
"""By which factor the power of a quiet frame is below that of the loudest: 20 dB."""

_FAINTEST = 1e-6
"""The power of what is never speech, -60 dBFS."""


class Pauses:
    """Tells of each pause once.

    Args:
        sample_rate: in Hz, at least 100.
    """

    def __init__(self, sample_rate: int) -> None:
        self._hop = sample_rate // FRAMES_PER_SECOND
        self._rest = np.zeros(0, np.float32)
        self._loudest = _FAINTEST
        self._quiet_frames = 0
        self._has_spoken = False

    def push(self, samples: Samples) -> bool:
        """Take the next samples, float32 [N]; whether there is a pause now that was not told of."""
        waiting = np.concatenate([self._rest, samples])
        whole = len(waiting) // self._hop * self._hop
        self._rest = waiting[whole:]
        frames = waiting[:whole].reshape(-1, self._hop)
        for power in np.einsum("ts,ts->t", frames, frames) / self._hop:
            self._note(float(power))
        is_pause = self._has_spoken and self._quiet_frames >= PAUSE_FRAMES
        if is_pause:
            self._has_spoken = False
        return is_pause

    def _note(self, power: float) -> None:
        if power > self._loudest * _QUIET:
            # Before the first word even a breath is the loudest.
            self._has_spoken |= power > _FAINTEST
            self._quiet_frames = 0
        else:
            self._quiet_frames += 1
        self._loudest = max(self._loudest, power)
