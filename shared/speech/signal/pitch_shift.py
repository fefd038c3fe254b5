"""The pitch policy: moves the speaker's fundamental frequency to the character's."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.characters.manifest import Pitch
from shared.speech.signal import pitch
from shared.speech.signal.pitch import F0Track
from shared.speech.signal.samples import hold_edges, ranked, resample
from shared.speech.signal.sound import Samples

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
    """Register of a speaker, in natural logarithms of Hz, measured on so many frames."""

    median: float
    low: float
    high: float
    frames: int


def plan_pitch(track: F0Track, pitch: Pitch, semitones: float | None) -> Array:
    """Move a speaker's fundamental frequency to the character's, keeping the contour's shape.

    "auto" moves the speaker's median to the character's; the median hardly depends on octave errors
    and on the few voiced frames of a whisper. It also scales the spread of the logarithm towards
    the character's, within limits. Unvoiced frames are interpolated between their neighbours; a
    recording without voiced frames gets the character's median. Returns Hz between the character's
    lowest and highest, float32 [T].
    """
    return move_pitch(track, measure_pitch(log_pitch(track)), pitch, semitones)


def log_pitch(track: F0Track) -> Array64:
    return np.log(track.hertz[track.hertz > 0].astype(np.float64))


def measure_pitch(logs: Array64) -> SpokenPitch | None:
    """Measure a register from the logarithms of voiced frames; None if there are too few."""
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
    """Move a fundamental frequency to the character's; without a register, to its median."""
    voiced = np.flatnonzero(track.hertz)
    if spoken is not None:
        logs = log_pitch(track)
        is_plausible = np.abs(logs - spoken.median) < _OCTAVE
        voiced, logs = voiced[is_plausible], logs[is_plausible]
    if spoken is None or len(voiced) == 0:
        return np.full(len(track.hertz), pitch.median_hz, np.float32)
    moved = _move(logs, spoken, pitch, semitones)
    low, high = float(np.log(pitch.low_hz)), float(np.log(pitch.high_hz))
    # Frequencies near the limits are compressed smoothly, so that none exceeds them.
    knee = min(_KNEE, (high - low) / 4)
    over, under = moved - (high - knee), (low + knee) - moved
    bent = np.where(over > 0, high - knee + knee * np.tanh(over / knee), moved)
    limited = np.where(under > 0, low + knee - knee * np.tanh(under / knee), bent)
    contour = np.interp(np.arange(len(track.hertz)), voiced, limited)
    smoothed = np.convolve(hold_edges(contour, 1, 1), _SMOOTHING, "valid")
    return np.exp(smoothed).astype(np.float32)


def _move(logs: Array64, spoken: SpokenPitch, pitch: Pitch, semitones: float | None) -> Array64:
    policy = pitch.policy if semitones is None else semitones
    if policy != "auto":
        moved: Array64 = logs + policy * _SEMITONE
        return moved
    # The fewer voiced frames there are, the less is the contour widened.
    spread = max(spoken.high - spoken.low, 0.05)
    factor = float(np.clip(2 * pitch.log_std / spread, *_SPREADS))
    trust = spoken.frames / (spoken.frames + _FRAMES_OF_TRUST)
    around: Array64 = (logs - spoken.median) * (1.0 + (factor - 1.0) * trust)
    return around + float(np.log(pitch.median_hz))


_LOWEST_HZ, _HIGHEST_HZ = 50.0, 1_000.0
_UNVOICED_SECONDS = 0.005
_SEARCH = 0.2  # of a period: how far a mark may lie from where it is expected


class _Pitch(NamedTuple):
    """The pitch at every sample, as it is and as it shall be, in Hz, and whether it is voiced."""

    source: Array64
    target: Array64
    voiced: NDArray[np.bool_]


def change_pitch(
    samples: Samples, sample_rate: int, semitones: float, intonation: float
) -> Samples:
    """Change the pitch of mono speech, float32 [N], and how far it moves around its median.

    Pieces of two periods are added again at other distances (TD-PSOLA: Moulines and Charpentier,
    "Pitch-synchronous waveform processing techniques for text-to-speech synthesis using diphones",
    1990). `intonation` is a factor on a logarithmic scale.
    """
    if (semitones, intonation) == (0.0, 1.0):
        return samples
    pitch = _plan(samples, sample_rate, semitones, intonation)
    if not pitch.voiced.any():
        return samples
    marks = np.fromiter(mark_periods(samples, sample_rate, pitch), np.int64)
    return overlap(samples, sample_rate, pitch, marks)


def _plan(samples: Samples, sample_rate: int, semitones: float, intonation: float) -> _Pitch:
    track = pitch.track(resample(samples, sample_rate, pitch.SAMPLE_RATE))
    voiced = track.hertz > 0
    if not voiced.any():
        nothing = np.zeros(len(samples))
        return _Pitch(nothing, nothing, nothing.astype(bool))
    frames = np.flatnonzero(voiced)
    octaves = np.log2(track.hertz[voiced])
    middle = np.median(octaves)
    wanted = middle + (octaves - middle) * intonation + semitones / 12
    times = np.arange(len(samples)) * (pitch.SAMPLE_RATE / pitch.HOP / sample_rate)
    nearest = np.minimum(np.rint(times).astype(np.int64), len(voiced) - 1)
    return _Pitch(
        np.exp2(np.interp(times, frames, octaves)),
        np.clip(np.exp2(np.interp(times, frames, wanted)), _LOWEST_HZ, _HIGHEST_HZ),
        voiced[nearest],
    )


def mark_periods(samples: Samples, sample_rate: int, pitch: _Pitch) -> Iterator[int]:
    """Find a place in each period, the same in all of them: where the wave is highest."""
    upwards = samples if samples.max() >= -samples.min() else -samples
    place, was_voiced = 0, False
    while place < len(samples):
        yield place
        if not pitch.voiced[place]:
            place, was_voiced = place + round(_UNVOICED_SECONDS * sample_rate), False
            continue
        period = sample_rate / pitch.source[place]
        reach = _SEARCH if was_voiced else 0.5
        begin = place + max(round(period * (1 - reach)), 1)
        end = place + max(round(period * (1 + reach)), 2)
        around = upwards[begin:end]
        place = begin + int(around.argmax()) if len(around) else end
        was_voiced = True


def overlap(samples: Samples, sample_rate: int, pitch: _Pitch, marks: NDArray[np.int64]) -> Samples:
    changed = np.zeros(len(samples), np.float32)
    borders = np.concatenate([[0], marks, [len(samples)]])
    place = float(marks[0])
    while place < len(samples):
        nearest = int(np.searchsorted(marks, place))
        if nearest > 0 and (
            nearest == len(marks) or place - marks[nearest - 1] < marks[nearest] - place
        ):
            nearest -= 1
        left, mark, right = borders[nearest : nearest + 3]
        source = (right - left) / 2
        step = source
        if pitch.voiced[mark]:
            step = sample_rate / pitch.target[min(int(place), len(samples) - 1)]
        rise, fall = mark - left, right - mark
        window = np.concatenate(
            [
                0.5 - 0.5 * np.cos(np.pi * np.arange(rise) / max(rise, 1)),
                0.5 + 0.5 * np.cos(np.pi * np.arange(fall) / max(fall, 1)),
            ]
        )
        gain = np.sqrt(min(step / max(source, 1.0), 4.0))
        piece = samples[left:right] * (gain * window).astype(np.float32)
        begin = round(place) - rise
        first, last = max(begin, 0), min(begin + len(piece), len(changed))
        if first < last:
            changed[first:last] += piece[first - begin : last - begin]
        place += max(step, 1.0)
    return changed
