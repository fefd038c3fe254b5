"""The engine `kokoro`: speaks Japanese text with a mixture of Kokoro-82M's voices."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import soxr

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST
from shared.runtime.quoting import quoted
from shared.speech.engines.delivery import SpeechPiece, bounded_speed, deliver
from shared.speech.engines.kokoro_packages import (
    NETWORK_SHA256,
    NOBODY,
    STYLE_ROWS,
    KokoroMissingError,
    read_files,
    read_network,
)
from shared.speech.engines.text_interface import (
    SpeechOptions,
    check_length,
    divide_text,
    nothing_to_say,
    refuse_styles,
    sentences_of,
)
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.onnx_files import ModelFacts
from shared.speech.graphs.sessions import find_session, shared_session
from shared.speech.signal.pitch_shift import change_pitch
from shared.speech.signal.samples import resample
from shared.speech.text.accents import AccentPhrase, accent_phrases
from shared.speech.text.duration import estimate_seconds, phone_of
from shared.speech.text.front_end import Reading, read_text
from shared.speech.text.languages import JAPANESE, divide
from shared.speech.text.phonemes import LONG, SOUNDS, MoraSound, split_morae, spoken_words
from shared.speech.text.spoken_form import write_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from shared.characters.manifest import CharacterManifest
    from shared.speech.engines.kokoro_packages import Mixture
    from shared.speech.graphs.sessions import GraphSession, SessionSettings
    from shared.speech.signal.sound import Samples
    from shared.speech.text.front_end import TextReader


SAMPLE_RATE: Final = 24_000
MOST_SYMBOLS: Final = STYLE_ROWS
_END = 0


class KokoroSynthesis:
    """Speaks symbols with style vectors [510, 256] and a shorter tract; safe for threads."""

    def __init__(
        self, session: GraphSession, symbols: Mapping[str, int], style: Samples, tract: float
    ) -> None:
        self._session = session
        self._symbols = symbols
        self._style = style
        self._tract = tract

    def speak(self, symbols: str, speed: float) -> Samples:
        """Speak the symbols of one breath, at most 510: float32 [samples] at 24 kHz.

        Samples that are played faster give a shorter tract; the network compensates by speaking
        slower.
        """
        numbers = [self._symbols[symbol] for symbol in symbols if symbol in self._symbols]
        numbers = numbers[:MOST_SYMBOLS]
        if not numbers:
            return np.zeros(0, np.float32)
        inputs = {
            "tokens": np.array([[_END, *numbers, _END]], np.int64),
            "style": self._style[len(numbers) - 1][None],
            "speed": np.array([speed / self._tract], np.float32),
        }
        spoken = self._session.run(inputs, "audio").ravel()
        return np.asarray(
            soxr.resample(spoken, SAMPLE_RATE * self._tract, SAMPLE_RATE, quality="VHQ"), np.float32
        )


def load(mixture: Mixture, settings: SessionSettings) -> KokoroSynthesis:
    """Load the network, or share it with another engine of the process, and mix a voice."""
    try:
        files = read_files()
        session = find_session(NETWORK_SHA256, settings)
        if session is None:
            # Its SHA-256 vouches for it: the inspection of strangers' files refuses its operators.
            graph = Graph("kokoro.onnx", read_network(), ModelFacts({}, {}), NETWORK_SHA256)
            session = shared_session(graph, settings)
    except KokoroMissingError as error:
        raise BundleError(str(error)) from error
    return KokoroSynthesis(session, files.symbols, mixture.style(files.voices), mixture.tract)


_NASAL, _HELD = "N", "q"
_PROLONGED = "ː"
_CONSONANTS: Mapping[str, str] = MappingProxyType(
    {consonant: consonant for consonant in "kstdnhbpmv"}
    | {consonant + "y": consonant + "ʲ" for consonant in "ktdbpm"}
    | {"g": "ɡ", "gy": "ɡʲ", "gw": "ɡᵝ", "kw": "kᵝ", "sh": "ɕ", "z": "ʣ", "j": "ʥ", "ch": "ʨ"}
    | {"ts": "ʦ", "ny": "ɲ", "hy": "ç", "f": "ɸ", "y": "j", "r": "ɾ", "ry": "ɾʲ", "w": "β"}
)
_BEFORE_I: Mapping[str, str] = MappingProxyType(
    {consonant: consonant + "ʲ" for consonant in "ktdbpmvɡɾɸʦ"} | {"n": "ɲ", "h": "ç", "ʣ": "z"}
)
_BEFORE_U: Mapping[str, str] = MappingProxyType({"ʣ": "z"})
_BACK_U = frozenset("kɡtdnhɸbpmjɾvβ")
_NASALS = (("mpb", "m"), ("kɡ", "ŋ"), ("ɲʨʥ", "ɲ"), ("ntdɾz", "n"))
_SIGNS: Mapping[str, str] = MappingProxyType(
    {"!": "!", "?": "?", "…": "…", ",": ",", ".": ".", "'": ",", "-": "—"}
)
_SILENT = frozenset((*_SIGNS.values(), " "))


def symbols_of_text(text: str, front_end: TextReader) -> str:
    return symbols_of_words(front_end.read(front_end.write(write_out(text))))


def symbols_of_words(reading: Reading) -> str:
    return _join(_pronounce(split_morae(word.reading)) for word in spoken_words(reading))


def symbols_of_phrases(phrases: Iterable[AccentPhrase]) -> str:
    """Write accent phrases as Kokoro's symbols, which cannot express the accents themselves."""
    return _join(_pronounce([mora.kana for mora in phrase.morae]) for phrase in phrases)


def has_sound(symbols: str) -> bool:
    return any(symbol not in _SILENT for symbol in symbols)


def _join(runs: Iterable[str]) -> str:
    joined = ""
    for run in runs:
        joined += f" {run}" if joined and run and run[0] not in _SILENT else run
    return joined


def _pronounce(morae: Sequence[str]) -> str:
    written = ""
    vowel = ""
    for place, mora in enumerate(morae):
        sound = SOUNDS.get(mora)
        if mora == LONG or (
            sound and sound == MoraSound(None, vowel) and vowel not in (_NASAL, _HELD)
        ):
            written += _PROLONGED if vowel in tuple("aiueo") else ""
        elif sound is None:
            written += _SIGNS.get(mora, "")
            vowel = ""
        else:
            written += _write(
                sound, SOUNDS.get(morae[place + 1]) if place + 1 < len(morae) else None
            )
            vowel = sound.vowel
    return written


def _write(sound: MoraSound, following: MoraSound | None) -> str:
    if sound.vowel == _HELD:
        return "ʔ"
    if sound.vowel == _NASAL:
        begins = _write(following, None)[0] if following and following.consonant else ""
        return next((nasal for before, nasal in _NASALS if begins and begins in before), "ɴ")
    consonant = _CONSONANTS[sound.consonant] if sound.consonant else ""
    if sound.vowel == "i":
        return _BEFORE_I.get(consonant, consonant) + "i"
    if sound.vowel == "u":
        is_back = not consonant or consonant in _BACK_U
        return _BEFORE_U.get(consonant, consonant) + ("ɯ" if is_back else "ɨ")
    return consonant + sound.vowel


MEDIAN_HZ: Final = 226.0
"""The median of the mixture's fundamental frequency."""

_SENTENCE_SECONDS = 0.45


def build(manifest: CharacterManifest, settings: SessionSettings) -> KokoroEngine:
    """Build the engine; the manifest's `text.settings` may set `gain`, the factor of loudness."""
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
    return KokoroEngine(load(NOBODY, settings), settings.front_end, sample_rate=SAMPLE_RATE)


class KokoroEngine:
    """Speaks Japanese text with a mixture; changed accents of phrases are not heard."""

    def __init__(
        self, voice: KokoroSynthesis, front_end: TextReader, *, sample_rate: int, gain: float = 1.0
    ) -> None:
        self.sample_rate = sample_rate
        self.languages = (JAPANESE,)
        self._voice = voice
        self._front_end = front_end
        self._gain = np.float32(gain)

    def estimate(self, text: str, options: SpeechOptions) -> float:
        refuse_styles(options)
        read = self._read(divide_text(text, self.languages, options).text)
        readings = [each for each in read if has_sound(symbols_of_words(each))]
        if not readings:
            raise nothing_to_say(text, self.languages)
        phones = (phone_of(label) for reading in readings for label in reading.labels)
        pauses = (len(readings) - 1) * _SENTENCE_SECONDS * options.pauses
        return options.around(estimate_seconds(phones) + pauses, bounded_speed(options))

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        refuse_styles(options)
        read = self._read(divide_text(text, self.languages, options).text)
        sentences = [symbols_of_words(reading) for reading in read]
        if not any(map(has_sound, sentences)):
            raise nothing_to_say(text, self.languages)
        return self._speak(sentences, options)

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        check_length(text)
        readings = self._read(divide(text, self.languages).text)
        return [phrase for reading in readings for phrase in accent_phrases(reading)]

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        refuse_styles(options)
        if text is not None and list(phrases) == self.read_phrases(text):
            readings = self._read(divide(text, self.languages).text)
            sentences = [symbols_of_words(reading) for reading in readings]
        else:
            sentences = [symbols_of_phrases(sentence) for sentence in sentences_of(phrases)]
        return self._speak(sentences, options)

    def _read(self, text: str) -> list[Reading]:
        return read_text(self._front_end, write_out(text))

    def _speak(self, sentences: Iterable[str], options: SpeechOptions) -> Iterator[Samples]:
        speed = bounded_speed(options)

        def say(symbols: str) -> SpeechPiece:
            spoken = resample(self._voice.speak(symbols, speed), SAMPLE_RATE, self.sample_rate)
            louder = spoken * self._gain
            moved = change_pitch(louder, self.sample_rate, options.pitch, options.intonation)
            return SpeechPiece(moved, _SENTENCE_SECONDS / speed)

        return deliver(map(say, filter(has_sound, sentences)), self.sample_rate, options)
