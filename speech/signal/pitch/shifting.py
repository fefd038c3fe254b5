"""The pitch policy: moves the speaker's fundamental frequency to the character's."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.characters.manifest import Pitch
from speech.signal.levels import hold_edges, ranked
from speech.signal.pitch.f0 import F0Track

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


@dataclass(frozen=True)
class SpokenPitch:
    """How high somebody speaks: natural logarithms of frequencies in Hz.

    Attributes:
        median: of the voiced frames.
        low: a standard deviation below the mean, by rank.
        high: a standard deviation above it.
        frames: how many voiced frames this was measured on, those beside the voice left out.
    """

    median: float
    low: float
    high: float
    frames: int


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
    return move_pitch(track, measure_pitch(log_pitch(track)), pitch, semitones)


def log_pitch(track: F0Track) -> Array64:
    """Return the natural logarithm of the frequency of each voiced frame."""
    return np.log(track.hertz[track.hertz > 0].astype(np.float64))


def measure_pitch(logs: Array64) -> SpokenPitch | None:
    """Measure how high somebody speaks; None if there are too few voiced frames.

    Args:
        logs: natural logarithm of the frequency of each voiced frame.
    """
    if len(logs) < _FEWEST_FRAMES:
        return None
    # Not the mean of two frames: with two speakers it could lie far from both of them.
    median = ranked(logs, 0.5)
    plausible = logs[np.abs(logs - median) < _OCTAVE]
    low, high = ranked(plausible, _SPREAD_SHARE), ranked(plausible, 1 - _SPREAD_SHARE)
    return SpokenPitch(median, low, high, len(plausible))


def move_pitch(
    track: F0Track, spoken: SpokenPitch | None, pitch: Pitch, semitones: float | None
) -> Array:
    """Move a fundamental frequency to the character's; see plan_pitch.

    Args:
        track: the speaker's fundamental frequency, T frames.
        spoken: how high the speaker speaks in general, or None if that is not known.
        pitch: the character's.
        semitones: by how much to move, or None for the character's own policy.
    """
    voiced = np.flatnonzero(track.hertz)
    if spoken is not None:
        logs = log_pitch(track)
        is_plausible = np.abs(logs - spoken.median) < _OCTAVE
        voiced, logs = voiced[is_plausible], logs[is_plausible]
    if spoken is None or len(voiced) == 0:
        return np.full(len(track.hertz), pitch.median_hz, np.float32)
    moved = _move(logs, spoken, pitch, semitones)
    limited = _limit(moved, float(np.log(pitch.low_hz)), float(np.log(pitch.high_hz)))
    contour = np.interp(np.arange(len(track.hertz)), voiced, limited)
    smoothed = np.convolve(hold_edges(contour, 1, 1), _SMOOTHING, "valid")
    return np.exp(smoothed).astype(np.float32)


def _move(logs: Array64, spoken: SpokenPitch, pitch: Pitch, semitones: float | None) -> Array64:
    policy = pitch.policy if semitones is None else semitones
    if policy == "auto":
        around: Array64 = (logs - spoken.median) * _spread(spoken, pitch.log_std)
        return around + float(np.log(pitch.median_hz))
    moved: Array64 = logs + policy * _SEMITONE
    return moved


def _spread(spoken: SpokenPitch, wanted: float) -> float:
    """By how much to widen the contour; the fewer voiced frames there are, the less."""
    factor = float(np.clip(2 * wanted / max(spoken.high - spoken.low, 0.05), *_SPREADS))
    trust = spoken.frames / (spoken.frames + _FRAMES_OF_TRUST)
    return 1.0 + (factor - 1.0) * trust


def _limit(logs: Array64, low: float, high: float) -> Array64:
    """Compress frequencies near the limits smoothly, so that none exceeds them."""
    knee = min(_KNEE, (high - low) / 4)
    over, under = logs - (high - knee), (low + knee) - logs
    bent = np.where(over > 0, high - knee + knee * np.tanh(over / knee), logs)
    return np.where(under > 0, low + knee - knee * np.tanh(under / knee), bent)
