"""The languages of a text: its runs of one language each, and what no voice reads."""

import base64
import re
import unicodedata
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Final

from shared.speech.text.normalisation import plain_text
from shared.voices.voice import EnglishWords

JAPANESE: Final = "ja"
ENGLISH: Final = "en"
_ROMANCE: Final = {"es": "Spanish", "it": "Italian", "pt": "Portuguese"}
ROMANCE: Final = tuple(_ROMANCE)
LANGUAGES: Final[Mapping[str, str]] = MappingProxyType(
    {JAPANESE: "Japanese", ENGLISH: "English", **_ROMANCE}
)
"""The languages that voices read, and their names, the usual ones first."""

_THREE_LETTERS: Final = {"jpn": "ja", "eng": "en", "spa": "es", "ita": "it", "por": "pt"}


@dataclass(frozen=True, slots=True)
class Run:
    """Part of a text in one language, with the signs and spaces after it."""

    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Unread:
    """Part of a text that no voice reads, and the name of its script or language."""

    text: str
    name: str


@dataclass(frozen=True, slots=True)
class Division:
    """The runs of a text in their order, and the parts between them that are not read."""

    runs: tuple[Run, ...]
    unread: tuple[Unread, ...]

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)

    @property
    def unread_names(self) -> str:
        return ", ".join(dict.fromkeys(each.name for each in self.unread))


def language_code(tag: str) -> str:
    """Shorten the tag of a language: `en-US`, `EN` and `eng` are `en`."""
    code = tag.strip().lower().replace("_", "-").partition("-")[0]
    return _THREE_LETTERS.get(code, code)


def divide(
    text: str,
    reads: Collection[str] = tuple(LANGUAGES),
    language: str | None = None,
    english_words: EnglishWords = EnglishWords.KATAKANA,
) -> Division:
    """Divide a text of any length by its sentences' languages, which script and words show.

    A sentence in Latin letters whose words show no language has that of the text. A voice that
    `reads` no English reads English words in katakana. `language` is that of the sentences, where
    the client knows it; `english_words` is about those in a Japanese sentence.
    """
    runs: list[Run] = []
    unread: list[Unread] = []
    # Numbers and signs alone belong to the sentence before them, or else to the one after them.
    waiting = ""
    plain = plain_text(text)
    usual = latin_language(plain, reads)
    for sentence in _SENTENCES.findall(plain):
        for part in readable_parts(sentence, reads, language):
            if isinstance(part, Unread):
                unread.append(part)
                continue
            base = base_of(part, reads, language, usual)
            if base is None and runs:
                runs.append(Run(part, runs[-1].language))
            elif base is None:
                waiting += part
            elif ENGLISH not in reads:
                runs.append(Run(waiting + part, JAPANESE))
                waiting = ""
            else:
                runs += runs_of(waiting + part, base, english_words)
                waiting = ""
    if waiting:
        runs.append(Run(waiting, language if language in reads and language else JAPANESE))
    joined = (
        Run("".join(run.text for run in group), spoken)
        for spoken, group in groupby(runs, key=lambda run: run.language)
    )
    return Division(tuple(joined), tuple(unread))


_SENTENCES = re.compile(r".*?(?:[。．！？!?…\r\n]+[」』）)\"”’']*\s*|\.[)\"”’']*\s+|$)", re.DOTALL)
# Parts of addresses, and of words with a hyphen (`e-mail`), are no words of a language.
_LATIN_WORD = re.compile(r"(?<![\w@./-])[^\W\d_]+(?:['’][^\W\d_]+)*(?![\w@/-]|\.\w)")
_TOKENS = re.compile(r"\d[\d.,:/]*[A-Za-z%/]*|.", re.DOTALL)

_LATIN, _KANA_SCRIPT, _HAN, _GREEK = "LATIN", "KANA", "HAN", "GREEK"
_READ_SCRIPTS: Final = frozenset({_LATIN, _KANA_SCRIPT, _HAN, _GREEK})
_SCRIPTS: Final = {
    "HIRAGANA": _KANA_SCRIPT,
    "KATAKANA": _KANA_SCRIPT,
    "KATAKANA-HIRAGANA": _KANA_SCRIPT,
    "CJK": _HAN,
    "IDEOGRAPHIC": _HAN,
    "VERTICAL": _KANA_SCRIPT,
    "MODIFIER": None,
}
_NAMES: Final = {"HANGUL": "Korean"}


@lru_cache(4_096)
def script_of(character: str) -> str | None:
    """Find the script of a letter, after Unicode's compatibility; None for other signs.

    Units in a square, such as `㎞`, belong to the language around them.
    """
    plain = unicodedata.normalize("NFKC", character)[:1]
    if plain.isascii():
        is_unit = unicodedata.decomposition(character).startswith("<square>")
        return _LATIN if plain.isalpha() and not is_unit else None
    if not plain.isalpha():
        return None
    word = unicodedata.name(plain, "UNKNOWN").partition(" ")[0]
    return _SCRIPTS.get(word, word)


_KANJI = Path(__file__).with_name("read_kanji.txt")
_KANJI_FROM, _KANJI_TO, _FURTHER_FROM, _FURTHER_TO = 0x3400, 0xA000, 0x20000, 0x323B0
RARE_KANJI: Final = "rare kanji"


@cache
def _read_kanji() -> bytes:
    """Load a bit for each kanji of Unicode: whether Open JTalk's dictionary has a reading of it."""
    return zlib.decompress(base64.b64decode(_KANJI.read_text()))


def is_rare_kanji(character: str) -> bool:
    code = ord(character)
    if _KANJI_FROM <= code < _KANJI_TO:
        place = code - _KANJI_FROM
    elif _FURTHER_FROM <= code < _FURTHER_TO:
        place = code - _FURTHER_FROM + _KANJI_TO - _KANJI_FROM
    else:
        return False
    return not _read_kanji()[place // 8] >> place % 8 & 1


def without_rare_kanji(part: str) -> Iterator[str | Unread]:
    for is_rare, group in groupby(part, key=is_rare_kanji):
        text = "".join(group)
        yield Unread(text, RARE_KANJI) if is_rare else text


def readable_parts(
    sentence: str, reads: Collection[str], language: str | None
) -> Iterator[str | Unread]:
    scripts = [script_of(character) for character in sentence]
    if not any(script and script not in _READ_SCRIPTS for script in scripts):
        name = other_language(sentence, scripts)
        is_asked = language in reads and language not in (JAPANESE, ENGLISH)
        is_read = is_asked or name in map(LANGUAGES.get, reads)
        if name and not is_read:
            yield Unread(sentence.strip(), name)
        else:
            yield from without_rare_kanji(sentence)
        return
    # Signs and spaces between two letters of a script that is not read belong to them.
    begin = 0
    letters = [(place, script) for place, script in enumerate(scripts) if script]
    for script, group in groupby(letters, key=lambda each: each[1]):
        if script in _READ_SCRIPTS:
            continue
        places = [place for place, _ in group]
        if sentence[begin : places[0]].strip():
            yield from without_rare_kanji(sentence[begin : places[0]])
        begin = places[-1] + 1
        while unicodedata.category(sentence[begin : begin + 1] or " ").startswith("M"):
            begin += 1
        yield Unread(sentence[places[0] : begin], _NAMES.get(script, script.title()))
    if sentence[begin:].strip():
        yield from without_rare_kanji(sentence[begin:])


# Characters that only Chinese has: simplified, or its pronouns and particles.
_CHINESE = frozenset("这们吗说过对给让谁么样听请见谢时间东车门问题际你她您哪呢从会发现学习书买卖")
_JAPANESE_TOO = frozenset("会学习")  # of these, those that Japanese writes in the same way
_FUNCTION_WORDS = Path(__file__).with_name("function_words.tsv")
_FEWEST_HITS, _LEAST_SHARE = 2, 0.25


@cache
def _function_words() -> list[tuple[str, str, frozenset[str]]]:
    """Load the names of languages, and their letters and words that count as one hit each."""
    rows = (line.split("\t") for line in _FUNCTION_WORDS.read_text("utf-8").splitlines())
    return [(name, letters, frozenset(words.split())) for name, letters, words in rows]


def hits_of(text: str) -> dict[str, int]:
    """Count the words and letters that show each language; names in capitals show none."""
    words = _LATIN_WORD.findall(text)
    said = {word for word in words if word[0].islower()}
    said |= {word.lower() for word in (words if text.isupper() else words[:1])}
    letters = [each for each in text.lower() if not each.isascii()]
    return {
        name: len(said & known) + sum(map(its_letters.count, letters))
        for name, its_letters, known in _function_words()
    }


def other_language(sentence: str, scripts: Collection[str | None]) -> str | None:
    if _KANA_SCRIPT in scripts:
        return None
    if _HAN in scripts:
        return "Chinese" if (_CHINESE - _JAPANESE_TOO) & set(sentence) else None
    return european_language(sentence)


def european_language(text: str) -> str | None:
    """Name the language of a text in Latin letters; None if it is English, or not sure."""
    hits = hits_of(text)
    name = max(hits, key=lambda each: hits[each])
    if hits[name] <= hits[LANGUAGES[ENGLISH]] or hits[name] < _FEWEST_HITS:
        return None
    return name if hits[name] >= _LEAST_SHARE * len(set(_LATIN_WORD.findall(text))) else None


def latin_language(text: str, reads: Collection[str]) -> str:
    """Find the code of the language that a text in Latin letters is read in."""
    name = european_language(text)
    return next((code for code in reads if name and LANGUAGES[code] == name), ENGLISH)


_LETTERS_OF_A_KANJI = 3
"""A sentence with so many Latin letters for each Japanese character is English."""

_WITH_PARTICLE = re.compile(r"[^\W\u3041-\u9fff][\u3041-\u309f]")
"""A Latin word with hiragana behind it, as only Japanese writes them."""


def base_of(sentence: str, reads: Collection[str], language: str | None, usual: str) -> str | None:
    scripts = [script for script in map(script_of, sentence) if script]
    if not scripts:
        return None
    if language in LANGUAGES:
        return language
    if _WITH_PARTICLE.search(sentence):
        return JAPANESE
    latin = scripts.count(_LATIN)
    if latin <= _LETTERS_OF_A_KANJI * (len(scripts) - latin):
        return JAPANESE
    is_unknown = european_language(sentence) is None
    if is_unknown and not hits_of(sentence)[LANGUAGES[ENGLISH]]:
        return usual
    return latin_language(sentence, reads)


def runs_of(sentence: str, base: str, english_words: EnglishWords) -> Iterator[Run]:
    if base == JAPANESE and english_words == EnglishWords.KATAKANA:
        yield Run(sentence, JAPANESE)
        return
    latin = ENGLISH if base == JAPANESE else base
    now, begin = base, 0
    for token in _TOKENS.finditer(sentence):
        script = script_of(token[0][0])
        if token[0][0].isnumeric():
            # Numbers and their units are spoken in the language of the sentence.
            found = base
        elif script is None:
            found = now
        else:
            found = latin if script == _LATIN else JAPANESE
        if found != now:
            if begin < token.start():
                yield Run(sentence[begin : token.start()], now)
            now, begin = found, token.start()
    yield Run(sentence[begin:], now)
