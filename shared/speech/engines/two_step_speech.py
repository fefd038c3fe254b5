"""Text for characters that only convert: the built-in voice speaks, the character converts that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shared.speech.engines.interface import ConversionOptions, MarkedPiece, speak_marked
from shared.speech.signal.loudness import limit
from shared.speech.signal.pitch_shift import change_pitch
from shared.speech.signal.samples import fit_length

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.characters.manifest import CharacterManifest
    from shared.speech.engines.interface import Engine
    from shared.speech.engines.text_interface import PhraseEngine, SpeechOptions
    from shared.speech.signal.sound import Samples
    from shared.speech.text.accents import AccentPhrase

_SEMITONES = 12


class TwoStepSpeech:
    """Speaks text with another voice and converts it, piece by piece; see PhraseEngine.

    The voice is known, so that the pitch is moved by as much in every piece: a short one's own
    median would flatten the melody of the text.
    """

    def __init__(
        self, voice: PhraseEngine, voice_hz: float, engine: Engine, manifest: CharacterManifest
    ) -> None:
        self._voice = voice
        self._engine = engine
        self._shortest = manifest.limits.min_seconds
        self._shift = (
            None
            if manifest.pitch is None
            else _SEMITONES * float(np.log2(manifest.pitch.median_hz / voice_hz))
        )

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""
        return self._engine.sample_rate

    def estimate(self, text: str, options: SpeechOptions) -> float:
        """Estimate how long the speech of a text is; see TextEngine."""
        return self._voice.estimate(text, options)

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        """Speak a text; see TextEngine.

        Raises:
            VoiceError: while a piece is spoken: the character cannot convert it.
        """
        return self._convert_each(self._voice.speak(text, _unsteered(options)), options)

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        """Speak a text with the marks of the voice that is converted; see MarkingEngine."""
        spoken = speak_marked(self._voice, text, _unsteered(options))
        return (MarkedPiece(self._convert(piece.samples, options), piece.marks) for piece in spoken)

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        """Find the accent phrases of a text; see PhraseEngine."""
        return self._voice.read_phrases(text)

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        """Speak accent phrases; see PhraseEngine and speak."""
        spoken = self._voice.speak_phrases(phrases, text, _unsteered(options))
        return self._convert_each(spoken, options)

    def _convert_each(self, pieces: Iterator[Samples], options: SpeechOptions) -> Iterator[Samples]:
        return (self._convert(piece, options) for piece in pieces)

    def _convert(self, piece: Samples, options: SpeechOptions) -> Samples:
        """Convert a piece that the voice spoke, silences and pauses included."""
        length = round(len(piece) * self.sample_rate / self._voice.sample_rate)
        if not piece.any():
            return np.zeros(length, np.float32)
        shortest = round(self._shortest * self._voice.sample_rate) + 1
        padded = fit_length(piece, max(len(piece), shortest))
        wanted = ConversionOptions(self._shift, options.seed)
        converted = self._engine.convert(padded, self._voice.sample_rate, wanted)[:length]
        moved = change_pitch(converted, self.sample_rate, options.pitch, 1.0)
        return limit(moved * np.float32(options.volume), self.sample_rate)


def _unsteered(options: SpeechOptions) -> SpeechOptions:
    """The options for the voice itself; the others are applied to the converted speech."""
    return replace(options, pitch=0.0, volume=1.0)
