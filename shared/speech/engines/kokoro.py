"""The engine `kokoro`: speaks several languages with a mixture of Kokoro-82M's voices."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from shared.characters.manifest import CharacterManifest
from shared.speech.engines.delivery import SpeechPiece, bounded_speed, deliver, deliver_windows
from shared.speech.engines.kokoro_packages import NOBODY, KokoroPackages
from shared.speech.engines.kokoro_synthesis import (
    FEWEST_IN_WINDOWS,
    SAMPLE_RATE,
    KokoroSynthesis,
    load,
)
from shared.speech.engines.text_interface import (
    SpeechOptions,
    check_length,
    divide_as_asked,
    divide_text,
    nothing_to_say,
    refuse_styles,
    sentences_of,
    text_numbers,
)
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.signal.pitch_shift import change_pitch
from shared.speech.signal.sound import Samples
from shared.speech.text import english_form
from shared.speech.text.accents import AccentPhrase, accent_phrases
from shared.speech.text.duration import estimate_seconds, phone_of
from shared.speech.text.front_end import Reading, TextReader, read_text
from shared.speech.text.languages import ENGLISH, JAPANESE, LANGUAGES, ROMANCE, Division, divide
from shared.speech.text.phonemes import LONG, SOUNDS, MoraSound, split_morae, spoken_words
from shared.speech.text.romance_form import RomanceForm
from shared.speech.text.romance_phones import RomancePhones
from shared.speech.text.spoken_form import read_table, write_out

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
_INFLECTED = frozenset(("動詞", "形容詞", "助動詞"))
_CONJUNCTIONS = frozenset(("て", "で"))


def symbols_of_text(text: str, front_end: TextReader) -> str:
    return symbols_of_words(front_end.read(front_end.write(write_out(text))))


def symbols_of_words(reading: Reading) -> str:
    """Write words as Kokoro's symbols, endings of verbs without a space, as misaki's `ja` does."""
    runs: list[list[str]] = []
    before = ""
    for word, spoken in zip(reading.words, spoken_words(reading), strict=True):
        morae = list(split_morae(spoken.reading))
        is_ending = word.part_of_speech == "助動詞" or word.text in _CONJUNCTIONS
        if runs and (morae[:1] == [LONG] or (is_ending and before in _INFLECTED)):
            runs[-1] += morae
        else:
            runs.append(morae)
        before = word.part_of_speech
    return _symbols(runs)


def symbols_of_phrases(phrases: Iterable[AccentPhrase]) -> str:
    """Write accent phrases as Kokoro's symbols, which cannot express the accents themselves."""
    return _symbols([mora.kana for mora in phrase.morae] for phrase in phrases)


def _symbols(runs: Iterable[Sequence[str]]) -> str:
    joined = ""
    for run in map(write_morae, runs):
        joined += f" {run}" if joined and run and run[0] not in _SILENT else run
    return joined


def has_sound(symbols: str) -> bool:
    return any(symbol not in _SILENT for symbol in symbols)


def write_morae(morae: Sequence[str]) -> str:
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
            following = morae[place + 1 : place + 2]
            written += write_sound(sound, SOUNDS.get(following[0]) if following else None)
            vowel = sound.vowel
    return written


def write_sound(sound: MoraSound, following: MoraSound | None) -> str:
    if sound.vowel == _HELD:
        return "ʔ"
    if sound.vowel == _NASAL:
        begins = write_sound(following, None)[0] if following and following.consonant else ""
        return next((nasal for before, nasal in _NASALS if begins and begins in before), "ɴ")
    consonant = _CONSONANTS[sound.consonant] if sound.consonant else ""
    if sound.vowel == "i":
        return _BEFORE_I.get(consonant, consonant) + "i"
    if sound.vowel == "u":
        is_back = not consonant or consonant in _BACK_U
        return _BEFORE_U.get(consonant, consonant) + ("ɯ" if is_back else "ɨ")
    return consonant + sound.vowel


MEDIAN_HZ: Final = 226.0  # the median of the mixture's fundamental frequency

_SENTENCE_SECONDS, _BREATH_SECONDS = 0.45, 0.2
_LONGEST_FIRST = 60
_PHONE_SECONDS, _AROUND_SENTENCE = 0.075, 0.35
"""The seconds of a phone, and of the beginning and end of a sentence; not those of Japanese."""

_PHONES = re.compile(r"[^\W\d_ˈˌ]")

_MOST_JOINED: Final = 300
"""The most symbols of a sentence in two languages that is spoken in one breath."""

_ENDS_SENTENCE = re.compile(r"[。．.!?！？…\n][」』）)\"”’'\s]*$")
_SENTENCES = re.compile(r".*?[.!?]+[\"']*(?:\s+|$)|.+$")
_BREATHS = re.compile(r"[,\s]\s*")
_SHORTEST, _LONGEST = 12, 200


class Sentence(NamedTuple):
    """A part that is spoken in one breath: its symbols, and their most seconds."""

    symbols: str
    seconds: float


@dataclass(frozen=True, eq=False)
class SpokenLanguage:
    """Writes texts out in words and signs, and sentences of them in Kokoro's symbols."""

    write_out: Callable[[str], str]
    symbols: Callable[[str], str]


def read_romance_language(language: str) -> SpokenLanguage:
    table = read_table(language)
    return SpokenLanguage(RomanceForm(table).write_out, RomancePhones(table).symbols)


class SentenceReader:
    """Reads text in Latin letters; its language is loaded for the first one."""

    def __init__(self, load: Callable[[], SpokenLanguage]) -> None:
        self._load = load
        self._loaded: SpokenLanguage | None = None
        self._lock = Lock()

    def read(self, text: str) -> list[Sentence]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
        written = map(self._loaded.symbols, cut_sentences(self._loaded.write_out(text)))
        return [
            Sentence(each, _AROUND_SENTENCE + _PHONE_SECONDS * len(_PHONES.findall(each)))
            for each in written
        ]


def cut_sentences(text: str) -> list[str]:
    """Cut a text that is written out in words into sentences of at most 200 characters."""
    sentences: list[str] = []
    for sentence in _SENTENCES.findall(text):
        for part in _breaths(sentence.strip()):
            if sentences and len(sentences[-1]) < _SHORTEST:
                sentences[-1] += f" {part}"
            else:
                sentences.append(part)
    return sentences


def _breaths(sentence: str) -> Iterator[str]:
    while len(sentence) > _LONGEST:
        gaps = [gap.end() for gap in _BREATHS.finditer(sentence, 0, _LONGEST)]
        commas = [gap for gap in gaps if "," in sentence[max(gap - 2, 0) : gap]]
        cut = next(iter((commas or gaps)[-1:]), _LONGEST)
        yield sentence[:cut].strip()
        sentence = sentence[cut:]
    if sentence:
        yield sentence


def first_breath(sentences: Sequence[str]) -> list[str]:
    """Cut a long first sentence after a comma, where what is before it is spoken in windows."""
    first, *others = sentences or [""]
    comma = first.find(", ", FEWEST_IN_WINDOWS)
    if len(first) <= _LONGEST_FIRST or comma < 0 or not has_sound(first[comma + 1 :]):
        return list(sentences)
    return [first[: comma + 1], first[comma + 2 :], *others]


class KokoroEngine:
    """Speaks text with a mixture; changed accents of phrases are not heard."""

    def __init__(
        self,
        voice: KokoroSynthesis,
        front_end: TextReader,
        readers: Mapping[str, SentenceReader],
        *,
        sample_rate: int,
        languages: Sequence[str] = tuple(LANGUAGES),
        gain: float = 1.0,
    ) -> None:
        self.sample_rate = sample_rate
        self.languages = languages
        self._voice = voice
        self._front_end = front_end
        self._readers = readers
        self._gain = np.float32(gain)

    def divide(self, text: str, options: SpeechOptions) -> Division:
        own = self._front_end.put_own_words(text)
        return divide_as_asked(own, self.languages, options)

    def estimate(self, text: str, options: SpeechOptions) -> float:
        sentences = self._sentences(text, options)
        pauses = (len(sentences) - 1) * _SENTENCE_SECONDS * options.pauses
        seconds = sum(sentence.seconds for sentence in sentences)
        return options.around(seconds + pauses, bounded_speed(options))

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        return self._speak([each.symbols for each in self._sentences(text, options)], options)

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        check_length(text)
        return [phrase for reading in self._read(text) for phrase in accent_phrases(reading)]

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        refuse_styles(options)
        if text is not None and list(phrases) == self.read_phrases(text):
            sentences = [symbols_of_words(reading) for reading in self._read(text)]
        else:
            sentences = [symbols_of_phrases(sentence) for sentence in sentences_of(phrases)]
        return self._speak(sentences, options)

    def _read(self, text: str) -> list[Reading]:
        own = self._front_end.put_own_words(text)
        return read_text(self._front_end, write_out(divide(own, (JAPANESE,)).text))

    def _sentences(self, text: str, options: SpeechOptions) -> list[Sentence]:
        """Read a text; parts in two languages are joined where no sentence ends between them."""
        refuse_styles(options)
        sentences: list[Sentence] = []
        ends = True
        for run in divide_text(self, text, options).runs:
            reader = self._readers.get(run.language)
            read = reader.read(run.text) if reader else self._read_japanese(run.text)
            for number, each in enumerate(read):
                joined = "" if ends or number else sentences[-1].symbols
                if joined and len(joined) + len(each.symbols) < _MOST_JOINED:
                    seconds = sentences[-1].seconds + each.seconds
                    sentences[-1] = Sentence(f"{joined} {each.symbols}", seconds)
                else:
                    sentences.append(each)
            ends = not sentences or bool(_ENDS_SENTENCE.search(run.text))
        spoken = [sentence for sentence in sentences if has_sound(sentence.symbols)]
        if not spoken:
            raise nothing_to_say(text, self.languages)
        return spoken

    def _read_japanese(self, text: str) -> list[Sentence]:
        return [
            Sentence(symbols_of_words(reading), estimate_seconds(map(phone_of, reading.labels)))
            for reading in read_text(self._front_end, write_out(text))
        ]

    def _speak(self, sentences: Iterable[str], options: SpeechOptions) -> Iterator[Samples]:
        speed = bounded_speed(options)
        breaths = first_breath([each for each in sentences if has_sound(each)])

        pauses = [
            (_BREATH_SECONDS if before.endswith(",") else _SENTENCE_SECONDS) / speed
            for before in ["", *breaths][: len(breaths)]
        ]
        spoken = (self._windows(symbols, speed) for symbols in breaths)
        if not options.whole and (options.pitch, options.intonation) == (0.0, 1.0):
            return deliver_windows(zip(spoken, pauses, strict=True), self.sample_rate, options)

        def join(windows: Iterator[Samples], pause: float) -> SpeechPiece:
            joined = np.concatenate([np.zeros(0, np.float32), *windows])
            moved = change_pitch(joined, self.sample_rate, options.pitch, options.intonation)
            return SpeechPiece(moved, pause)

        return deliver(map(join, spoken, pauses), self.sample_rate, options)

    def _windows(self, symbols: str, speed: float) -> Iterator[Samples]:
        spoken = self._voice.speak(symbols, speed, self.sample_rate)
        return (window * self._gain for window in spoken)


def build(manifest: CharacterManifest, settings: SessionSettings) -> KokoroEngine:
    """Build the engine; the manifest's `text.settings` may set `gain`, the factor of loudness."""
    gain = text_numbers(manifest, gain=1.0)["gain"]
    return built_in(settings, manifest.text_languages, manifest.sample_rate, gain)


def built_in(
    settings: SessionSettings,
    languages: Sequence[str] = tuple(LANGUAGES),
    sample_rate: int = SAMPLE_RATE,
    gain: float = 1.0,
) -> KokoroEngine:
    return KokoroEngine(
        load(NOBODY, settings),
        settings.front_end,
        readers_of(settings),
        sample_rate=sample_rate,
        languages=languages,
        gain=gain,
    )


def readers_of(settings: SessionSettings) -> dict[str, SentenceReader]:
    packages = KokoroPackages(settings.kokoro)

    def load_english() -> SpokenLanguage:
        known = settings.sharing.get("pronunciation", packages.read_pronunciation)
        return SpokenLanguage(english_form.write_out, known.symbols)

    def load_romance(language: str) -> SpokenLanguage:
        return settings.sharing.get(language, partial(read_romance_language, language))

    readers = {ENGLISH: SentenceReader(load_english)}
    return readers | {each: SentenceReader(partial(load_romance, each)) for each in ROMANCE}
