"""English words in Japanese text, read as Japanese speakers read them: in katakana."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from speech.text.reading import ReadsText

_LIST = Path(__file__).with_name("english_words.tsv")
_WORD = re.compile(r"([A-Za-z]+(?:['-][A-Za-z]+)*)(\d*)")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VOWELS = frozenset("aeiouy")
_UNKNOWN = "フィラー"  # the part of speech that Open JTalk gives to what it has to spell
_LONGEST_ACRONYM = 5
_LONGEST_WORD = 40
_KANA_PER_LETTER = 1.5  # more than any word has that is not spelled
_ARTICLE = "ア"
_REMEMBERED = 4_096

_LETTERS = {
    "a": "エー",
    "b": "ビー",
    "c": "シー",
    "d": "ディー",
    "e": "イー",
    "f": "エフ",
    "g": "ジー",
    "h": "エイチ",
    "i": "アイ",
    "j": "ジェー",
    "k": "ケー",
    "l": "エル",
    "m": "エム",
    "n": "エヌ",
    "o": "オー",
    "p": "ピー",
    "q": "キュー",
    "r": "アール",
    "s": "エス",
    "t": "ティー",
    "u": "ユー",
    "v": "ブイ",
    "w": "ダブリュー",
    "x": "エックス",
    "y": "ワイ",
    "z": "ゼット",
}


def read_words(path: Path = _LIST) -> dict[str, str]:
    """Read a list of English words, in lower case, and their katakana, parted by tabulators."""
    lines = path.read_text("utf-8").splitlines()
    return dict(line.split("\t") for line in lines if line)


class EnglishReader:
    """Writes English words in katakana; any number of threads use it at once.

    A word is looked for in the list of well-known words and then in Open JTalk's dictionary; what
    neither knows, a small network reads (kanalizer, 4.5 MB, about 6 ms a word), and what is no word
    is spelled.

    Args:
        reader: knows the dictionary.
        words: well-known words, in lower case, and their katakana.
        is_own: tells the words of a user's own dictionary, which go before everything else.
    """

    def __init__(
        self,
        reader: ReadsText,
        words: Mapping[str, str],
        is_own: Callable[[str], bool] = lambda _: False,
    ) -> None:
        import kanalizer  # noqa: PLC0415 - loads its network

        self._network: Any = kanalizer
        self._reader = reader
        self._words = words
        self._is_own = is_own
        self._remember = lru_cache(_REMEMBERED)(self._write)

    def write(self, text: str) -> str:
        """Write the English words of a text in katakana, but those that the dictionary knows."""
        return _WORD.sub(self._write_found, text)

    def _write_found(self, found: re.Match[str]) -> str:
        if self._is_own(found[0]) or self._is_own(found[1]):
            return found[0]
        return self._remember(found[1], found[2])

    def _write(self, word: str, number: str) -> str:
        """Leave what the dictionary knows as it is, because it knows the accent, too."""
        if number and self._look_up(word + number):
            return word + number
        if len(word) > 1 and word.lower() not in self._words and self._look_up(word):
            return word + number
        return self._pronounce(word) + number

    def _look_up(self, word: str) -> str | None:
        """Find the reading of a word in the dictionary; None if it would be spelled."""
        words = self._reader.read(word).words
        if len(words) != 1 or words[0].part_of_speech == _UNKNOWN:
            return None
        is_spelled = len(words[0].reading) > _KANA_PER_LETTER * len(word)
        return None if is_spelled and len(word) > _LONGEST_ACRONYM else words[0].reading

    def _pronounce(self, word: str) -> str:
        if len(word) == 1:
            return _ARTICLE if word == "a" else _spell(word)
        known = self._words.get(word.lower()) or self._look_up(word)
        if known is not None:
            return known
        parts = [
            part for piece in word.replace("'", "").split("-") for part in _PARTS.findall(piece)
        ]
        if len(parts) > 1 and min(len(part) for part in parts) > 1:
            return "".join(self._pronounce(part) for part in parts)
        return self._ask_network("".join(parts))

    def _ask_network(self, word: str) -> str:
        is_acronym = word.isupper() and len(word) <= _LONGEST_ACRONYM
        if is_acronym or len(word) > _LONGEST_WORD or not _VOWELS & set(word.lower()):
            return _spell(word)
        return str(self._network.convert(word.lower(), on_incomplete="ignore"))


def _spell(word: str) -> str:
    return "".join(_LETTERS[letter] for letter in word.lower())
