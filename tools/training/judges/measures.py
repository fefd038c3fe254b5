"""Figures about one conversion; each says in its docstring what it is and in which unit."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tools.training.decoder.features import RATE, Floats

with warnings.catch_warnings():
    # It asks setuptools for its own version, which setuptools has come to warn of.
    warnings.simplefilter("ignore")
    import pyworld

FRAME_MS = 10.0


@dataclass(frozen=True)
class SpeechMeasures:
    """Of a 16 kHz recording in frames of 10 ms: f0 in Hz (0 = unvoiced), and the level."""

    f0: NDArray[np.float64]
    level_db: NDArray[np.float64]


def analyse(wave: Floats) -> SpeechMeasures:
    samples = np.ascontiguousarray(wave, np.float64)
    f0, times = pyworld.dio(samples, RATE, f0_floor=65, f0_ceil=700, frame_period=FRAME_MS)
    f0 = pyworld.stonemask(samples, f0, times, RATE)
    return SpeechMeasures(f0, level_db(wave, len(f0)))


def level_db(wave: Floats, frames: int) -> NDArray[np.float64]:
    """RMS of 20 ms around each frame in dB of full scale."""
    squared = np.convolve(wave.astype(np.float64) ** 2, np.full(320, 1 / 320), "same")
    index = np.minimum(np.arange(frames) * 160, len(wave) - 1)
    result: NDArray[np.float64] = 10 * np.log10(np.maximum(squared[index], 1e-12))
    return result


def melody_correlation(source: SpeechMeasures, found: SpeechMeasures) -> float:
    """Correlation of log f0 inside the stretches that are voiced in both, without their ends."""
    count = min(len(source.f0), len(found.f0))
    a, b = source.f0[:count], found.f0[:count]
    both = np.convolve((a > 0) & (b > 0), np.ones(5), "same") > 4.5
    if both.sum() < 20:
        return float("nan")
    x, y = np.log(a[both]), np.log(b[both])
    # An octave error of either tracker is no melody: frames far off the median are left out.
    kept = (np.abs(x - np.median(x)) < 0.5) & (np.abs(y - np.median(y)) < 0.5)
    return float(np.corrcoef(x[kept], y[kept])[0, 1])


def longest_dropout_ms(source: SpeechMeasures, found: SpeechMeasures) -> float:
    """Longest stretch of clearly voiced input that comes out silent (30 dB under the speech)."""
    count = min(len(source.f0), len(found.f0))
    loud = source.level_db[:count] > source.level_db.max() - 25
    floor = np.percentile(found.level_db, 95) - 30
    missing = (source.f0[:count] > 0) & loud & (found.level_db[:count] < floor)
    longest = run = 0
    for frame in missing:
        run = run + 1 if frame else 0
        longest = max(longest, run)
    return longest * FRAME_MS


class Embedding(Protocol):
    def embed(self, wave: Floats) -> Floats:
        """The direction of a 16 kHz recording of at least a second, float32 [N] of length 1."""


class SpeakerEncoder:
    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from resemblyzer import VoiceEncoder, preprocess_wav  # noqa: PLC0415 - slow, warns

            self._preprocess = preprocess_wav
            self._encoder = VoiceEncoder("cpu", verbose=False)

    def embed(self, wave: Floats) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            heard = self._preprocess(wave, source_sr=16_000)
        if len(heard) < 8000:
            heard = wave
        return np.asarray(self._encoder.embed_utterance(heard), np.float32)


def voice_of(recordings: Iterable[Floats], encoder: Embedding) -> Floats:
    """The mean direction of a voice's recordings at 16 kHz, of length 1; there is at least one."""
    mean = np.mean([encoder.embed(wave) for wave in recordings], 0)
    return np.asarray(mean / np.linalg.norm(mean), np.float32)
