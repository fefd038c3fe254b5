"""One recording as the engines see it: its level, its pitch, and where somebody speaks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.characters import CharacterManifest
from speech.engines import f0
from speech.engines.base import Samples, StageClock
from speech.engines.chunks import Chunk, join
from speech.engines.gate import find_speech, gate_gains
from speech.engines.levels import SpeechLevels, measure_levels
from speech.engines.loudness import apply_gains, fade_ends, follow_loudness, limit, match_level
from speech.engines.samples import (
    check_samples,
    converted_length,
    fit_length,
    remove_rumble,
    resample,
)

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
    track: f0.F0Track
    levels: SpeechLevels
    speech: NDArray[np.bool_]


def convert_recording(
    samples: Samples,
    sample_rate: int,
    manifest: CharacterManifest,
    stopwatch: StageClock,
    speak: Callable[[Analysis], Samples],
) -> Samples:
    """Convert a recording with whatever speaks for the character; see Engine.convert.

    Args:
        samples: the recording.
        sample_rate: of the recording.
        manifest: of the character.
        stopwatch: told how long the stages take.
        speak: turns an analysed recording into the character's speech at the manifest's sample
            rate, aligned with it; it is not asked if nobody speaks.
    """
    check_samples(samples, sample_rate, manifest)
    length = converted_length(len(samples), sample_rate, manifest.sample_rate)
    analysis = analyse(samples, sample_rate, stopwatch)
    if not analysis.speech.any():
        return np.zeros(length, np.float32)
    voice = speak(analysis)
    with stopwatch.stage("post"):
        return finish(voice, manifest.sample_rate, length, analysis)


def analyse(samples: Samples, sample_rate: int, stopwatch: StageClock) -> Analysis:
    """Analyse a recording, float32 [N], as at least 8 frames, the last silent if need be."""
    with stopwatch.stage("resample"):
        wave = remove_rumble(resample(samples, sample_rate, f0.SAMPLE_RATE), f0.SAMPLE_RATE)
        frames = max(-(-len(wave) // f0.HOP), _SHORTEST_FRAMES)
        wave = fit_length(wave, frames * f0.HOP)
    with stopwatch.stage("f0"):
        track = f0.track(wave)
        levels = measure_levels(wave, f0.HOP, frames)
        speech = find_speech(levels, track.hertz > 0)
    return Analysis(wave, track, levels, speech)


def speak_in_chunks(
    analysis: Analysis,
    chunks: Sequence[Chunk],
    speak: Callable[[int], Samples],
    hop: int,
) -> Samples:
    """Convert a recording piece by piece.

    Args:
        analysis: of the recording.
        chunks: its pieces.
        speak: converts the piece of an index, from its `first` frame to its `last`.
        hop: samples per frame of what `speak` returns.

    Returns:
        The samples of all frames, float32 [T hop]; silence where nobody speaks.
    """
    pieces = []
    for index, chunk in enumerate(chunks):
        if not analysis.speech[chunk.first : chunk.last].any():
            piece = np.zeros((chunk.last - chunk.first) * hop, np.float32)
        else:
            piece = speak(index)
        if len(chunks) > 1:
            recorded = analysis.wave[chunk.first * f0.HOP : chunk.last * f0.HOP]
            piece = match_level(piece, hop, recorded, f0.HOP)
        pieces.append((chunk, piece))
    return join(pieces, hop)


def finish(voice: Samples, sample_rate: int, length: int, analysis: Analysis) -> Samples:
    """Give a converted voice the recording's silence, loudness and length.

    Args:
        voice: the character's speech, aligned with the recording, float32 [M].
        sample_rate: of the voice, a multiple of 100 Hz.
        length: how many samples there must be in the end.
        analysis: of the recording.
    """
    hop = sample_rate // 100
    gate = gate_gains(analysis.levels, analysis.speech)
    gated = apply_gains(fit_length(voice, len(gate) * hop), gate, hop)
    loudness = follow_loudness(gated, hop, analysis.levels)
    loud = apply_gains(gated, loudness, hop)
    return fade_ends(limit(fit_length(loud, length), sample_rate), sample_rate)
