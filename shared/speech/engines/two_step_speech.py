"""Text that several engines speak: one for each language, or one that another one converts."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from shared.characters.manifest import CharacterManifest
from shared.speech.engines.interface import (
    ConversionOptions,
    Engine,
    MarkedPiece,
    TextEngineWrapper,
    speak_marked,
)
from shared.speech.engines.text_interface import (
    PhraseEngine,
    SpeechOptions,
    TextError,
    TextErrorCode,
    divide_as_asked,
    divide_text,
    nothing_to_say,
)
from shared.speech.signal.loudness import limit
from shared.speech.signal.pitch_shift import change_pitch
from shared.speech.signal.samples import fit_length
from shared.speech.signal.sound import Samples
from shared.speech.text.languages import JAPANESE, Division, Run

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
        return replace(options, pitch=0.0, volume=1.0, whole=True)

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


_SENTENCE_SECONDS = 0.45
_UNSAYABLE = frozenset({TextErrorCode.NOTHING_TO_SAY, TextErrorCode.TEXT_UNREADABLE})


class SpeechByLanguage(TextEngineWrapper):
    """Speaks each language of a text with an engine of its own, and phrases with Japanese's."""

    def __init__(self, engines: Mapping[str, PhraseEngine]) -> None:
        super().__init__(lambda: engines[JAPANESE])
        self._engines = engines

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self._engines)

    def divide(self, text: str, options: SpeechOptions) -> Division:
        return divide_as_asked(text, self.languages, options)

    def estimate(self, text: str, options: SpeechOptions) -> float:
        return sum(
            self._engines[run.language].estimate(run.text, asked)
            for run, asked in self._runs(text, options)
        )

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        return (piece.samples for piece in self.speak_marked(text, options))

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        return chain.from_iterable(
            [
                speak_marked(self._engines[run.language], run.text, asked)
                for run, asked in self._runs(text, options)
            ]
        )

    def _runs(self, text: str, options: SpeechOptions) -> list[tuple[Run, SpeechOptions]]:
        runs = []
        for run in divide_text(self, text, options).runs:
            try:
                self._engines[run.language].estimate(run.text, options)
            except TextError as error:
                if error.code not in _UNSAYABLE:
                    raise
            else:
                runs.append(run)
        if not runs:
            raise nothing_to_say(text, self.languages)
        pause = _SENTENCE_SECONDS * options.pauses / options.speed
        return [
            (
                run,
                replace(
                    options,
                    language=None,
                    silence_before=options.silence_before if number == 0 else pause,
                    silence_after=options.silence_after if number == len(runs) - 1 else 0.0,
                ),
            )
            for number, run in enumerate(runs)
        ]
