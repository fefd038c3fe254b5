"""Text for characters that only convert: the built-in engine speaks, the character converts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shared.speech.engines.interface import ConversionOptions, MarkedPiece, TextEngineWrapper
from shared.speech.signal.loudness import limit
from shared.speech.signal.pitch_shift import change_pitch
from shared.speech.signal.samples import fit_length

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.characters.manifest import CharacterManifest
    from shared.speech.engines.interface import Engine
    from shared.speech.engines.text_interface import PhraseEngine, SpeechOptions
    from shared.speech.signal.sound import Samples

_SEMITONES = 12


class TwoStepSpeech(TextEngineWrapper):
    """Speaks text with one engine and converts it with another, piece by piece.

    The pitch of the speaking engine is known and moved by the same interval in every piece: the
    median of a short piece would flatten the melody of the text. Raises VoiceError while a piece is
    spoken that the character cannot convert.
    """

    def __init__(
        self, speaker: PhraseEngine, speaker_hz: float, engine: Engine, manifest: CharacterManifest
    ) -> None:
        super().__init__(lambda: speaker)
        self._spoken_rate = speaker.sample_rate
        self._converter = engine
        self._shortest = manifest.limits.min_seconds
        self._shift = (
            None
            if manifest.pitch is None
            else _SEMITONES * float(np.log2(manifest.pitch.median_hz / speaker_hz))
        )

    @property
    def sample_rate(self) -> int:
        return self._converter.sample_rate

    def _options(self, options: SpeechOptions) -> SpeechOptions:
        return replace(options, pitch=0.0, volume=1.0)

    def _change(
        self, pieces: Iterator[MarkedPiece], options: SpeechOptions
    ) -> Iterator[MarkedPiece]:
        return (MarkedPiece(self._convert(piece.samples, options), piece.marks) for piece in pieces)

    def _convert(self, piece: Samples, options: SpeechOptions) -> Samples:
        length = round(len(piece) * self.sample_rate / self._spoken_rate)
        if not piece.any():
            return np.zeros(length, np.float32)
        shortest = round(self._shortest * self._spoken_rate) + 1
        padded = fit_length(piece, max(len(piece), shortest))
        wanted = ConversionOptions(self._shift, options.seed)
        converted = self._converter.convert(padded, self._spoken_rate, wanted)[:length]
        moved = change_pitch(converted, self.sample_rate, options.pitch, 1.0)
        return limit(moved * np.float32(options.volume), self.sample_rate)
