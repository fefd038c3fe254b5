"""Analyses recordings for the engines: level, pitch, and where somebody speaks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speech.signal.arrays import Samples
from speech.signal.chunks import Chunk
from speech.signal.clock import StageClock
from speech.signal.gate import find_speech
from speech.signal.levels import SpeechLevels, measure_levels
from speech.signal.pitch.f0 import HOP, SAMPLE_RATE, F0Track, track
from speech.signal.samples import fit_length, remove_rumble, resample

_SHORTEST_FRAMES = 8


@dataclass(frozen=True)
class Analysis:
    """What is known of a recording; T frames of 10 ms.

    Attributes:
        wave: at 16 kHz without rumble, float32 [160 T], silence after the recording's end.
        track: its fundamental frequency.
        levels: its levels.
        speech: the frames in which somebody speaks, bool [T].
    """

    wave: Samples
    track: F0Track
    levels: SpeechLevels
    speech: NDArray[np.bool_]

    def has_speech(self, chunk: Chunk | None = None) -> bool:
        """Whether somebody speaks in a chunk with its context, or anywhere at all."""
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
