"""Likeness to the target as a speaker encoder hears it (Resemblyzer; for evaluation alone)."""

import warnings

import numpy as np

from training.features import Floats


class SpeakerLikeness:
    """Cosine between the embedding of a recording and that of the target's reference speech."""

    def __init__(self, references: list[Floats]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from resemblyzer import VoiceEncoder, preprocess_wav  # noqa: PLC0415 - slow, warns

            self._preprocess = preprocess_wav
            self._encoder = VoiceEncoder("cpu", verbose=False)
        embeddings = [self._embed(wave) for wave in references]
        mean = np.mean(embeddings, 0)
        self._reference = mean / np.linalg.norm(mean)

    def of(self, wave: Floats) -> float:
        """Cosine of a 16 kHz recording of at least a second."""
        return float(self._embed(wave) @ self._reference)

    def _embed(self, wave: Floats) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            heard = self._preprocess(wave, source_sr=16_000)
        if len(heard) < 8000:
            heard = wave
        return np.asarray(self._encoder.embed_utterance(heard), np.float32)
