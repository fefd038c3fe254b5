"""What the small encoder for streams learns from: speech and what the shared encoder hears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import soxr

from speech.engines.harmonic.content import tells_speaker
from speech.signal.clock import NoClock
from speech.signal.whole.analysis import analyse
from training.sound.augment import spoil
from training.sound.features import RATE, Floats, MelSpectrum
from training.sound.files import read_speech

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from training.content.hearing import Ear

VERSIONS = 3
"""Disturbed versions of each recording; all but the first have another vocal tract and pitch."""
_MOST_SPEED = 0.17
_PIECE_SECONDS = 24
_SHORTEST_SECONDS = 0.4
_FEWEST_SPEAKING = 30
_PAUSE_WEIGHT = 0.1


@dataclass(frozen=True)
class Lesson:
    """A piece of speech, T frames.

    Attributes:
        powers: logarithms of mel power as recorded and of versions, float16 [T, 80] each.
        content: what the shared encoder hears in it as recorded, without mean, float16 [T, 128].
        weight: how much each frame counts, float32 [T].
    """

    powers: Sequence[NDArray[np.float16]]
    content: NDArray[np.float16]
    weight: NDArray[np.float32]


def lessons_of(files: Sequence[Path], ear: Ear, seed: int) -> Iterator[Lesson]:
    """Make lessons of recordings of any rate.

    Args:
        files: the recordings.
        ear: the shared encoder.
        seed: of the disturbances.
    """
    random = np.random.default_rng(seed)
    mel = MelSpectrum()
    for file in files:
        samples = read_speech(file)
        for begin in range(0, len(samples), _PIECE_SECONDS * RATE):
            piece = samples[begin : begin + _PIECE_SECONDS * RATE]
            if len(piece) >= _SHORTEST_SECONDS * RATE:
                lesson = _lesson(piece, ear, mel, random)
                if lesson is not None:
                    yield lesson


def _lesson(
    piece: Floats, ear: Ear, mel: MelSpectrum, random: np.random.Generator
) -> Lesson | None:
    padded = np.pad(piece, (round(0.4 * RATE), round(0.3 * RATE)))
    analysis = analyse(padded, RATE, NoClock())
    speaking = tells_speaker(analysis)
    if speaking.sum() < _FEWEST_SPEAKING:
        return None
    frames = len(speaking)
    powers = [mel.log_power(analysis.wave, frames)]
    for version in range(VERSIONS):
        speed = float(np.exp(random.uniform(-_MOST_SPEED, _MOST_SPEED))) if version else 1.0
        sped = soxr.resample(analysis.wave, RATE * speed, RATE) if version else analysis.wave
        powers.append(mel.log_power(spoil(sped.astype(np.float32), random), frames, speed))
    content = ear.hear(analysis.wave, speaking)
    weight = np.where(speaking, 1.0, _PAUSE_WEIGHT).astype(np.float32)
    return Lesson([p.astype(np.float16) for p in powers], content.astype(np.float16), weight)
