"""Levels of a recording: of each frame, of the speech, and of the pauses."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from speech.signal.arrays import Samples

_Float = TypeVar("_Float", bound=np.floating[Any])

FRAMES_PER_SECOND = 100
_SILENT_POWER = 1e-12  # -120 dBFS
_FLOOR_SHARE = 0.1


def frame_power(samples: Samples, hop: int, frames: int) -> Samples:
    """Mean square of 20 ms around each frame: float32 [frames].

    Args:
        samples: audio of any length.
        hop: samples per frame (10 ms); frame t is centred at sample hop * t.
        frames: how many frames.
    """
    whole = np.zeros((frames + 1) * hop, np.float32)
    used = samples[: frames * hop]
    whole[hop : hop + len(used)] = used
    blocks = whole.reshape(frames + 1, hop)
    energy = np.einsum("bs,bs->b", blocks, blocks)
    power: Samples = (energy[:-1] + energy[1:]) / np.float32(2 * hop)
    return power


def decibels(power: NDArray[np.floating]) -> Samples:
    """Convert power to dB; nothing is below -120 dB."""
    level: Samples = (10.0 * np.log10(np.maximum(power, _SILENT_POWER))).astype(np.float32)
    return level


def smooth(values: Samples, frames: int) -> Samples:
    """Average with a raised cosine over so many frames; the edge values are repeated: [T]."""
    frames = min(frames, len(values)) | 1
    padded = hold_edges(values, frames // 2, frames // 2)
    return np.convolve(padded, _raised_cosine(frames), "valid").astype(np.float32)


@lru_cache(maxsize=16)
def _raised_cosine(frames: int) -> Samples:
    window = np.hanning(frames + 2)[1:-1].astype(np.float32)
    whole: Samples = window / window.sum()
    return whole


def hold_edges(values: NDArray[_Float], before: int, after: int) -> NDArray[_Float]:
    """Repeat the first value before and the last one after; several times faster than np.pad."""
    held = np.empty(before + len(values) + after, values.dtype)
    held[:before] = values[0]
    held[before : before + len(values)] = values
    held[before + len(values) :] = values[-1]
    return held


def ranked(values: NDArray[np.floating], share: float) -> float:
    """Return the quantile of the given share, by nearest rank."""
    rank = round(share * (len(values) - 1))
    return float(np.partition(values, rank)[rank])


@dataclass(frozen=True)
class SpeechLevels:
    """The levels of a recording, in dB of full scale (mean square).

    Attributes:
        frames: level of each frame, float32 [T].
        speech: level of the speech: the power-weighted mean power of the frames.
        floor: level of the pauses: the quietest tenth of the frames lies below it.
    """

    frames: Samples
    speech: float
    floor: float

    @property
    def range(self) -> float:
        """How far the speech is above the floor in dB."""
        return self.speech - self.floor


def measure_levels(samples: Samples, hop: int, frames: int) -> SpeechLevels:
    """Measure the levels of a recording of at least one frame; see frame_power."""
    return levels_of(frame_power(samples, hop, frames))


def levels_of(power: Samples) -> SpeechLevels:
    """Measure the levels of a recording whose frames have that power."""
    level = decibels(power)
    return SpeechLevels(level, speech_level(power), ranked(level, _FLOOR_SHARE))


def speech_level(power: Samples) -> float:
    """Level in dB of the speech in frames of that power: the mean weighted by the power itself."""
    total = float(power.sum())
    weighted = float(np.dot(power, power)) / total if total > _SILENT_POWER else 0.0
    return float(decibels(np.array([weighted]))[0])
