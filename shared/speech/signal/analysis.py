"""Analysis of a recording: its speech, its pauses, and pieces joined without audible seams."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shared.speech.signal.pitch import HOP, SAMPLE_RATE, F0Track, track
from shared.speech.signal.samples import (
    SpeechLevels,
    fit_length,
    measure_levels,
    remove_rumble,
    resample,
    smooth,
)
from shared.speech.signal.sound import Samples, StageClock

LONGEST = 2_000  # frames: 20 s
CONTEXT = 60  # frames of its neighbours that a piece is converted with
_CROSSFADE = 2
_PAUSE = 15


@dataclass(frozen=True)
class Chunk:
    """A piece of a recording: its own frames, and those with their context, `first` to `last`."""

    begin: int
    end: int
    first: int
    last: int


def cut_at_pauses(levels: Samples, longest: int = LONGEST) -> list[Chunk]:
    """Cut a recording into pieces of at most `longest` frames, at the quietest places.

    All but the last have at least half of `longest`, without context. Levels are in dB, [T].
    """
    quiet = smooth(levels, _PAUSE)
    cuts = [0]
    while len(levels) - cuts[-1] > longest:
        earliest = cuts[-1] + longest // 2
        latest = min(cuts[-1] + longest, len(levels) - longest // 4)
        cuts.append(earliest + int(np.argmin(quiet[earliest:latest])))
    cuts.append(len(levels))
    return [
        Chunk(begin, end, max(begin - CONTEXT, 0), min(end + CONTEXT, len(levels)))
        for begin, end in pairwise(cuts)
    ]


def join(pieces: Sequence[tuple[Chunk, Samples]], hop: int) -> Samples:
    """Join pieces, each from `first` to `last`, with a crossfade of 20 ms; gaps are silent."""
    if len(pieces) == 1 and pieces[0][0].first == 0:
        return pieces[0][1]
    joined = np.zeros(pieces[-1][0].last * hop, np.float32)
    half = _CROSSFADE * hop // 2
    for chunk, samples in pieces:
        # Around a cut a piece fades over one frame on either side.
        corners, weights = [chunk.first * hop], [1.0]
        if chunk.first < chunk.begin:
            corners, weights = [chunk.begin * hop - half, chunk.begin * hop + half], [0.0, 1.0]
        if chunk.end < chunk.last:
            corners += [chunk.end * hop - half, chunk.end * hop + half]
            weights += [1.0, 0.0]
        places = slice(chunk.first * hop, chunk.last * hop)
        gains = np.interp(np.arange(places.start, places.stop), corners, weights)
        joined[places] += samples * gains.astype(np.float32)
    return joined


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
    """Find the frames in which somebody speaks, whispers included, bool [T].

    These, or frames near them, are voiced or well above the noise floor; none if all is steady
    quiet noise.
    """
    hums = levels.speech < _HUM_DB and levels.range < _HUM_RANGE_DB and not voiced.any()
    if levels.speech < SILENT_DB or hums:
        return np.zeros(len(voiced), np.bool_)
    deepest, highest = _BELOW_SPEECH_DB
    threshold = np.clip(
        levels.floor + _ABOVE_FLOOR_DB, levels.speech - deepest, levels.speech - highest
    )
    audible = levels.frames > max(float(threshold), SILENT_DB)
    # Runs shorter than _SHORTEST frames are clicks (a morphological opening).
    total = np.concatenate([[0], np.cumsum(audible), np.full(_SHORTEST, -1)])
    begins = total[_SHORTEST : _SHORTEST + len(audible)] - total[: len(audible)] == _SHORTEST
    around = _any_of(_any_of(begins, _SHORTEST - 1, 0) | voiced, _AFTER, _BEFORE)
    nothing = max(_NOTHING_DB, levels.speech - _NOTHING_BELOW_SPEECH_DB)
    return around & _any_of(levels.frames > nothing, _SPILL, _SPILL)


def gate_gains(levels: SpeechLevels, speech: Frames) -> Samples:
    """Compute the gate's gain for each frame: 1 in speech, less in pauses, float32 [T].

    Pauses are attenuated less in noise, in which speech may be mistaken for a pause.
    """
    if not speech.any():
        return np.zeros(len(speech), np.float32)
    depth = np.interp(levels.range, _RANGES_DB, _DEPTHS_DB)
    closed = 0.0 if depth >= _DEPTHS_DB[-1] else 10.0 ** (-depth / 20.0)
    return smooth(np.where(speech, 1.0, closed).astype(np.float32), _RAMP)


def _any_of(frames: Frames, before: int, after: int) -> Frames:
    total = np.concatenate([[0], np.cumsum(frames)])
    at = np.arange(len(frames))
    last = np.minimum(at + after + 1, len(frames))
    return total[last] > total[np.maximum(at - before, 0)]


_SHORTEST_FRAMES = 8


@dataclass(frozen=True)
class Analysis:
    """A recording of T frames of 10 ms; `wave` at 16 kHz is without rumble, float32 [160 T]."""

    wave: Samples
    track: F0Track
    levels: SpeechLevels
    speech: NDArray[np.bool_]

    def has_speech(self, chunk: Chunk | None = None) -> bool:
        """Return whether somebody speaks in a chunk with its context, or anywhere at all."""
        frames = self.speech if chunk is None else self.speech[chunk.first : chunk.last]
        return bool(frames.any())


def analyse(samples: Samples, sample_rate: int, stopwatch: StageClock) -> Analysis:
    """Analyse a recording, float32 [N], in at least 8 frames; missing frames are silent."""
    with stopwatch.stage("resample"):
        wave = remove_rumble(resample(samples, sample_rate, SAMPLE_RATE), SAMPLE_RATE)
        frames = max(-(-len(wave) // HOP), _SHORTEST_FRAMES)
        wave = fit_length(wave, frames * HOP)
    with stopwatch.stage("f0"):
        f0_track = track(wave)
        levels = measure_levels(wave, HOP, frames)
        speech = find_speech(levels, f0_track.hertz > 0)
    return Analysis(wave, f0_track, levels, speech)
