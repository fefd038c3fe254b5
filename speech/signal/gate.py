"""The gate: makes the converted voice silent where the recording is silent."""

import numpy as np
from numpy.typing import NDArray

from speech.signal.arrays import Samples
from speech.signal.levels import SpeechLevels, smooth

Frames = NDArray[np.bool_]

SILENT_DB = -60.0
_HUM_DB = -40.0
_HUM_RANGE_DB = 6.0

_ABOVE_FLOOR_DB = 6.0
_BELOW_SPEECH_DB = (50.0, 14.0)  # how far the threshold lies below speech, at most and at least

_NOTHING_DB = -75.0
_NOTHING_BELOW_SPEECH_DB = 60.0

_BEFORE = 10  # frames kept open before and after speech, for soft consonants and phrase ends
_AFTER = 15
_SPILL = 3  # frames that they may reach into almost complete silence
_SHORTEST = 6  # a shorter unvoiced sound away from speech is a click
_RAMP = 7

_RANGES_DB = (10.0, 20.0, 35.0)
_DEPTHS_DB = (3.0, 10.0, 80.0)


def find_speech(levels: SpeechLevels, voiced: Frames) -> Frames:
    """Tell in which frames somebody speaks, whispers included.

    A frame belongs to speech if it, or a frame near it, is voiced or well above the noise floor. A
    recording of silence or of steady quiet noise has no speech.

    Args:
        levels: of the recording.
        voiced: which frames are voiced, bool [T].

    Returns:
        bool [T].
    """
    hums = levels.speech < _HUM_DB and levels.range < _HUM_RANGE_DB and not voiced.any()
    if levels.speech < SILENT_DB or hums:
        return np.zeros(len(voiced), np.bool_)
    deepest, highest = _BELOW_SPEECH_DB
    threshold = np.clip(
        levels.floor + _ABOVE_FLOOR_DB, levels.speech - deepest, levels.speech - highest
    )
    audible = levels.frames > max(float(threshold), SILENT_DB)
    around = _any_of(_without_clicks(audible) | voiced, _AFTER, _BEFORE)
    nothing = max(_NOTHING_DB, levels.speech - _NOTHING_BELOW_SPEECH_DB)
    return around & _any_of(levels.frames > nothing, _SPILL, _SPILL)


def gate_gains(levels: SpeechLevels, speech: Frames) -> Samples:
    """Compute the gate's gain for each frame: 1 in speech, less in pauses, float32 [T].

    The further the speech is above the noise, the more the pauses are attenuated. If the noise is
    nearly as loud as the speech, they are attenuated little, because closing the gate would cut
    speech that cannot be told from noise.
    """
    if not speech.any():
        return np.zeros(len(speech), np.float32)
    depth = np.interp(levels.range, _RANGES_DB, _DEPTHS_DB)
    closed = 0.0 if depth >= _DEPTHS_DB[-1] else 10.0 ** (-depth / 20.0)
    return smooth(np.where(speech, 1.0, closed).astype(np.float32), _RAMP)


def _without_clicks(audible: Frames) -> Frames:
    """Drop runs shorter than _SHORTEST frames (a morphological opening)."""
    total = np.concatenate([[0], np.cumsum(audible), np.full(_SHORTEST, -1)])
    enough: Frames = (
        total[_SHORTEST : _SHORTEST + len(audible)] - total[: len(audible)] == _SHORTEST
    )
    return _any_of(enough, _SHORTEST - 1, 0)


def _any_of(frames: Frames, before: int, after: int) -> Frames:
    """Whether any frame from so many before to so many after is set."""
    total = np.concatenate([[0], np.cumsum(frames)])
    at = np.arange(len(frames))
    last = np.minimum(at + after + 1, len(frames))
    return total[last] > total[np.maximum(at - before, 0)]
