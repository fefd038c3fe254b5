"""Where the character's voice lies while it speaks: the pitch policy."""

import numpy as np
from numpy.typing import NDArray

from shared.characters import Pitch
from speech.engines.f0 import F0Track
from speech.engines.levels import hold_edges, ranked

Array = NDArray[np.float32]
Array64 = NDArray[np.float64]

_FEWEST_FRAMES = 5  # of voice, for it to have a median
_OCTAVE = float(np.log(2.0))
_SEMITONE = _OCTAVE / 12
_SPREADS = (0.8, 1.3)
_SPREAD_SHARE = 0.16  # what lies a standard deviation below the mean
_FRAMES_OF_TRUST = 50.0
_KNEE = 0.15
_SMOOTHING = np.array([0.25, 0.5, 0.25])


def plan_pitch(track: F0Track, pitch: Pitch, semitones: float | None) -> Array:
    """Move a speaker's fundamental frequency to the character's, keeping the contour's shape.

    "auto" moves the median, which neither octave errors nor a few voiced frames of a whisper move
    far, and brings the spread of the logarithm towards the character's by at most a quarter.
    Frames without voice get the frequency between their neighbours; a recording without voice gets
    the character's median.

    Args:
        track: the speaker's fundamental frequency, T frames.
        pitch: the character's.
        semitones: by how much to move, or None for the character's own policy.

    Returns:
        Frequency of every frame in Hz, between the character's lowest and highest, float32 [T].
    """
    voiced = track.hertz > 0
    if np.count_nonzero(voiced) < _FEWEST_FRAMES:
        return np.full(len(voiced), pitch.median_hz, np.float32)
    logs = np.log(track.hertz[voiced].astype(np.float64))
    # One of the frames, also of an even number: between two voices there may be none near.
    median = ranked(logs, 0.5)
    plausible = np.abs(logs - median) < _OCTAVE
    moved = _move(logs[plausible], median, pitch, semitones)
    limited = _limit(moved, float(np.log(pitch.low_hz)), float(np.log(pitch.high_hz)))
    contour = np.interp(np.arange(len(voiced)), np.flatnonzero(voiced)[plausible], limited)
    smoothed = np.convolve(hold_edges(contour, 1, 1), _SMOOTHING, "valid")
    return np.exp(smoothed).astype(np.float32)


def _move(logs: Array64, median: float, pitch: Pitch, semitones: float | None) -> Array64:
    policy = pitch.policy if semitones is None else semitones
    if policy == "auto":
        around: Array64 = (logs - median) * _spread(logs, pitch.log_std)
        return around + float(np.log(pitch.median_hz))
    moved: Array64 = logs + policy * _SEMITONE
    return moved


def _spread(logs: Array64, wanted: float) -> float:
    """By how much to widen the contour; little voice says little about the speaker's spread."""
    low, high = ranked(logs, _SPREAD_SHARE), ranked(logs, 1 - _SPREAD_SHARE)
    factor = float(np.clip(2 * wanted / max(high - low, 0.05), *_SPREADS))
    trust = len(logs) / (len(logs) + _FRAMES_OF_TRUST)
    return 1.0 + (factor - 1.0) * trust


def _limit(logs: Array64, low: float, high: float) -> Array64:
    """Bend what comes near the limits, so that they are not passed and the shape remains."""
    knee = min(_KNEE, (high - low) / 4)
    over, under = logs - (high - knee), (low + knee) - logs
    bent = np.where(over > 0, high - knee + knee * np.tanh(over / knee), logs)
    return np.where(under > 0, low + knee - knee * np.tanh(under / knee), bent)
