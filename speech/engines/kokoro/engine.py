"""The engine `kokoro`: speaks Japanese text with a voice that is mixed of Kokoro-82M's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from shared.characters.manifest import MANIFEST
from shared.process.quoting import quoted
from speech.bundles.files import BundleError
from speech.engines.interface.delivery import Piece, deliver
from speech.engines.interface.text_engine import (
    SpeechOptions,
    check_length,
    nothing_to_say,
    refuse_styles,
    sentences_of,
)
from speech.engines.kokoro.mixture import NOBODY
from speech.engines.kokoro.phones import has_sound, symbols_of_phrases, symbols_of_words
from speech.engines.kokoro.synthesis import SAMPLE_RATE, load
from speech.signal.pitch.prosody import change_pitch
from speech.signal.samples import resample
from speech.text.duration import estimate_seconds, phone_of
from speech.text.phones.accents import accent_phrases
from speech.text.sentences import read_sentences, split_sentences
from speech.text.spoken import write_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shared.characters.manifest import CharacterManifest
    from speech.engines.kokoro.synthesis import Synthesis
    from speech.networks.settings import SessionSettings
    from speech.signal.arrays import Samples
    from speech.text.front_end import FrontEnd
    from speech.text.phones.accents import AccentPhrase
    from speech.text.reading import Reading

MEDIAN_HZ: Final = 226.0
"""How high the mixture speaks: the median of its fundamental frequency."""

_SENTENCE_SECONDS = 0.45
_SLOWEST, _FASTEST = 0.25, 4.0


def build(manifest: CharacterManifest, settings: SessionSettings) -> KokoroEngine:
    """Build the engine of a character that speaks with the mixture.

    The manifest's `text.settings` may say by which factor, `gain`, the character speaks louder.

    Raises:
        BundleError: it is no number, others are set, or the installed packages are others.
    """
    said = dict(manifest.text.settings) if manifest.text else {}
    gain = said.pop("gain", 1.0)
    if said or isinstance(gain, bool) or not isinstance(gain, int | float):
        raise BundleError(
            f"{MANIFEST}: field 'text.settings': expected only 'gain', a number, found"
            f" {', '.join(map(quoted, said)) or quoted(gain)}."
        )
    return KokoroEngine(
        load(NOBODY, settings), settings.front_end, sample_rate=manifest.sample_rate, gain=gain
    )


def built_in(settings: SessionSettings) -> KokoroEngine:
    """Build the engine that speaks for characters that only convert.

    Raises:
        BundleError: the installed packages are others.
    """
    return KokoroEngine(load(NOBODY, settings), settings.front_end, sample_rate=SAMPLE_RATE)


class KokoroEngine:
    """Speaks Japanese text with the mixture; see PhraseEngine.

    The network has no symbols for accents: what is changed about the accents of phrases is not
    heard.

    Args:
        voice: that speaks.
        front_end: reads the texts.
        sample_rate: of the speech, in Hz.
        gain: by what factor louder than the network the character speaks.
    """

    def __init__(
        self, voice: Synthesis, front_end: FrontEnd, *, sample_rate: int, gain: float = 1.0
    ) -> None:
        self._voice = voice
        self._front_end = front_end
        self._sample_rate = sample_rate
        self._gain = np.float32(gain)

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""
        return self._sample_rate

    def estimate(self, text: str, options: SpeechOptions) -> float:
        """Estimate how long the speech of a text is; see TextEngine."""
        refuse_styles(options)
        readings = [each for each in self._read(text) if has_sound(symbols_of_words(each))]
        if not readings:
            raise nothing_to_say(text)
        phones = (phone_of(label) for reading in readings for label in reading.labels)
        pauses = (len(readings) - 1) * _SENTENCE_SECONDS * options.pauses
        return options.around(estimate_seconds(phones) + pauses, _bounded(options.speed))

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        """Speak a text sentence by sentence; see TextEngine."""
        refuse_styles(options)
        sentences = [symbols_of_words(reading) for reading in self._read(text)]
        if not any(map(has_sound, sentences)):
            raise nothing_to_say(text)
        return self._speak(sentences, options)

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        """Find the accent phrases of a text; see PhraseEngine."""
        return [phrase for reading in self._read(text) for phrase in accent_phrases(reading)]

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        """Speak accent phrases; see PhraseEngine."""
        refuse_styles(options)
        if text is not None and list(phrases) == self.read_phrases(text):
            sentences = [symbols_of_words(reading) for reading in self._read(text)]
        else:
            sentences = [symbols_of_phrases(sentence) for sentence in sentences_of(phrases)]
        return self._speak(sentences, options)

    def _read(self, text: str) -> list[Reading]:
        check_length(text)
        sentences = split_sentences(self._front_end.write(write_out(text)))
        return list(read_sentences(self._front_end, sentences))

    def _speak(self, sentences: Iterable[str], options: SpeechOptions) -> Iterator[Samples]:
        speed = _bounded(options.speed)
        pieces = (
            Piece(self._say(symbols, speed, options), _SENTENCE_SECONDS / speed)
            for symbols in sentences
            if has_sound(symbols)
        )
        return deliver(pieces, self._sample_rate, options)

    def _say(self, symbols: str, speed: float, options: SpeechOptions) -> Samples:
        spoken = resample(self._voice.speak(symbols, speed), SAMPLE_RATE, self._sample_rate)
        louder = spoken * self._gain
        return change_pitch(louder, self._sample_rate, options.pitch, options.intonation)


def _bounded(speed: float) -> float:
    return min(max(speed, _SLOWEST), _FASTEST)
