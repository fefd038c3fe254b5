"""Hears whether a room resounds: then no sound ends faster than the room lets it."""

import numpy as np

from speech.signal.levels import FRAMES_PER_SECOND, decibels, ranked
from training.sound.features import RATE, Floats

SLOWEST_FALL = -105.0
"""Of speech, in dB a second; slower ones are a room's."""

_FRAMES = 12
_FASTEST_SHARE = 0.1
_LEAST_FALLS = 20
_ABOVE_FLOOR_DB = 20.0
_END_ABOVE_FLOOR_DB = 6.0
_BELOW_LOUD_DB = 30.0


def resounds(wave: Floats) -> bool:
    """Whether somebody speaks in a room that resounds; False where too little is to be heard.

    Of 70 readers of LibriSpeech, 9 s each, none seems to; after an invented room of 0.8 s as loud
    as the voice, 69 of 70 do, after one of 0.4 s at half that power, none.

    Args:
        wave: float32 [N] at 16 kHz.
    """
    fall = fast_fall(wave)
    return fall is not None and fall > SLOWEST_FALL


def fast_fall(wave: Floats) -> float | None:
    """How fast the sound falls where it falls fast, in dB a second; None if it hardly does.

    The tenth of the falls that is the steepest begins here; each lasts 120 ms and is the slope of
    the level in that time. After the signal's decay rates of Wen, Habets and Naylor, "Blind
    estimation of reverberation time based on the distribution of signal decay rates" (2008).

    Args:
        wave: float32 [N] at 16 kHz.
    """
    # Differences: what is low falls slowly in any voice.
    steps = np.diff(wave)
    size = RATE // FRAMES_PER_SECOND
    count = len(steps) // size
    if count < _FRAMES:
        return None
    level = decibels(np.square(steps[: count * size].reshape(count, size)).mean(1))
    floor, loud = ranked(level, 0.05), ranked(level, 0.95)
    falls = np.lib.stride_tricks.sliding_window_view(level, _FRAMES)
    time = (np.arange(_FRAMES) - (_FRAMES - 1) / 2) / FRAMES_PER_SECOND
    slope = falls @ (time / (time @ time))
    begins = falls[:, 0] > max(floor + _ABOVE_FLOOR_DB, loud - _BELOW_LOUD_DB)
    # What ends in the noise says how loud that is.
    slope = slope[begins & (falls[:, -1] > floor + _END_ABOVE_FLOOR_DB) & (slope < 0)]
    return float(ranked(slope, _FASTEST_SHARE)) if len(slope) >= _LEAST_FALLS else None
