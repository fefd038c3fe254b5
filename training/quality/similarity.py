"""Likeness to the target as a speaker encoder hears it (Resemblyzer; for evaluation alone)."""

import warnings
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from training.sound.features import Floats


class Embedding(Protocol):
    """Hears who speaks."""

    def embed(self, wave: Floats) -> Floats:
        """The direction of a 16 kHz recording of at least a second, float32 [N] of length 1."""


class SpeakerEncoder:
    """Embeds recordings so that those of one person point in nearly the same direction."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from resemblyzer import VoiceEncoder, preprocess_wav  # noqa: PLC0415 - slow, warns

            self._preprocess = preprocess_wav
            self._encoder = VoiceEncoder("cpu", verbose=False)

    def embed(self, wave: Floats) -> Floats:
        """The direction, float32 [256] of length 1, of a 16 kHz recording of at least a second."""
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


class SpeakerLikeness:
    """Cosine between the embedding of a recording and that of the target's reference speech."""

    def __init__(self, references: Iterable[Floats], encoder: Embedding) -> None:
        self._encoder = encoder
        self._reference = voice_of(references, encoder)

    def of(self, wave: Floats) -> float:
        """Cosine of a 16 kHz recording of at least a second."""
        return float(self._encoder.embed(wave) @ self._reference)
