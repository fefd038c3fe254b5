"""Speech at another pitch, or livelier, of the same length and with the same formants."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speech.signal.arrays import Samples
from speech.signal.pitch import f0
from speech.signal.samples import resample

_LOWEST_HZ, _HIGHEST_HZ = 50.0, 1_000.0
_UNVOICED_SECONDS = 0.005
_SEARCH = 0.2  # of a period: how far a mark may lie from where it is expected


@dataclass(frozen=True)
class _Pitch:
    """The pitch at every sample: as it is and as it shall be, in Hz; whether it is voiced."""

    source: NDArray[np.float64]
    target: NDArray[np.float64]
    voiced: NDArray[np.bool_]


def change_pitch(
    samples: Samples, sample_rate: int, semitones: float, intonation: float
) -> Samples:
    """Change the pitch of speech and how far it moves.

    Pieces of two periods are added again at other distances (TD-PSOLA: Moulines and Charpentier,
    "Pitch-synchronous waveform processing techniques for text-to-speech synthesis using diphones",
    1990).

    Args:
        samples: mono speech, float32 [N].
        sample_rate: in Hz.
        semitones: by how much higher.
        intonation: by what factor the pitch moves further from its median, on a logarithmic scale.

    Returns:
        float32 [N].
    """
    if (semitones, intonation) == (0.0, 1.0):
        return samples
    pitch = _plan(samples, sample_rate, semitones, intonation)
    if not pitch.voiced.any():
        return samples
    marks = np.fromiter(_marks(samples, sample_rate, pitch), np.int64)
    return _overlap(samples, sample_rate, pitch, marks)


def _plan(samples: Samples, sample_rate: int, semitones: float, intonation: float) -> _Pitch:
    track = f0.track(resample(samples, sample_rate, f0.SAMPLE_RATE))
    voiced = track.hertz > 0
    if not voiced.any():
        nothing = np.zeros(len(samples))
        return _Pitch(nothing, nothing, nothing.astype(bool))
    frames = np.flatnonzero(voiced)
    octaves = np.log2(track.hertz[voiced])
    middle = np.median(octaves)
    wanted = middle + (octaves - middle) * intonation + semitones / 12
    times = np.arange(len(samples)) * (f0.SAMPLE_RATE / f0.HOP / sample_rate)
    nearest = np.minimum(np.rint(times).astype(np.int64), len(voiced) - 1)
    return _Pitch(
        np.exp2(np.interp(times, frames, octaves)),
        np.clip(np.exp2(np.interp(times, frames, wanted)), _LOWEST_HZ, _HIGHEST_HZ),
        voiced[nearest],
    )


def _marks(samples: Samples, sample_rate: int, pitch: _Pitch) -> Iterator[int]:
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


def _overlap(
    samples: Samples, sample_rate: int, pitch: _Pitch, marks: NDArray[np.int64]
) -> Samples:
    """Add the pieces around the marks at the distances of the wanted pitch."""
    changed = np.zeros(len(samples), np.float32)
    borders = np.concatenate([[0], marks, [len(samples)]])
    place = float(marks[0])
    while place < len(samples):
        nearest = _nearest(marks, place)
        left, mark, right = borders[nearest : nearest + 3]
        source = (right - left) / 2
        step = source
        if pitch.voiced[mark]:
            step = sample_rate / pitch.target[min(int(place), len(samples) - 1)]
        gain = np.sqrt(min(step / max(source, 1.0), 4.0))
        piece = samples[left:right] * _window(mark - left, right - mark, gain)
        _add(changed, piece, place, mark - left)
        place += max(step, 1.0)
    return changed


def _nearest(marks: NDArray[np.int64], place: float) -> int:
    after = int(np.searchsorted(marks, place))
    if after == len(marks):
        return after - 1
    if after > 0 and place - marks[after - 1] < marks[after] - place:
        return after - 1
    return after


def _window(rise: int, fall: int, gain: float) -> Samples:
    up = 0.5 - 0.5 * np.cos(np.pi * np.arange(rise) / max(rise, 1))
    down = 0.5 + 0.5 * np.cos(np.pi * np.arange(fall) / max(fall, 1))
    return (gain * np.concatenate([up, down])).astype(np.float32)


def _add(changed: Samples, piece: Samples, place: float, before: int) -> None:
    begin = round(place) - before
    first, last = max(begin, 0), min(begin + len(piece), len(changed))
    if first < last:
        changed[first:last] += piece[first - begin : last - begin]
