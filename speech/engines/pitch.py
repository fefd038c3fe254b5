"""The pitch policy: moves the speaker's fundamental frequency to the character's."""

import numpy as np
from numpy.typing import NDArray

from shared.characters import Pitch
from speech.engines.f0 import F0Track
from speech.engines.levels import hold_edges, ranked

Array = NDArray[np.float32]
Array64 = NDArray[np.float64]

_FEWEST_FRAMES = 5  # voiced frames that are needed for a median
_OCTAVE = float(np.log(2.0))
_SEMITONE = _OCTAVE / 12
_SPREADS = (0.8, 1.3)
_SPREAD_SHARE = 0.16  # of a normal distribution lies a standard deviation below the mean
_FRAMES_OF_TRUST = 50.0
_KNEE = 0.15
_SMOOTHING = np.array([0.25, 0.5, 0.25])


def plan_pitch(track: F0Track, pitch: Pitch, semitones: float | None) -> Array:
    """Move a speaker's fundamental frequency to the character's, keeping the contour's shape.

    "auto" moves the speaker's median to the character's; the median hardly depends on octave errors
    and on the few voiced frames of a whisper. It also scales the spread of the logarithm towards
    the character's, within limits. Unvoiced frames get a frequency interpolated from their
    neighbours; a recording without voiced frames gets the character's median.

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
    # Not the mean of two frames: with two speakers it could lie far from both of them.
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
    """By how much to widen the contour; the fewer voiced frames there are, the less."""
    low, high = ranked(logs, _SPREAD_SHARE), ranked(logs, 1 - _SPREAD_SHARE)
    factor = float(np.clip(2 * wanted / max(high - low, 0.05), *_SPREADS))
    trust = len(logs) / (len(logs) + _FRAMES_OF_TRUST)
    return 1.0 + (factor - 1.0) * trust


def _limit(logs: Array64, low: float, high: float) -> Array64:
    """Compress frequencies near the limits smoothly, so that none exceeds them."""
    knee = min(_KNEE, (high - low) / 4)
    over, under = logs - (high - knee), (low + knee) - logs
    bent = np.where(over > 0, high - knee + knee * np.tanh(over / knee), logs)
    return np.where(under > 0, low + knee - knee * np.tanh(under / knee), bent)
