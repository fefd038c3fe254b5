"""A user's dictionary: readings of words, checked and compiled for the front end."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from shared.speech.text.languages import is_rare_kanji
from shared.speech.text.phonemes import LONG, SOUNDS, split_morae
from shared.speech.text.spoken_form import write_out

LONGEST_SURFACE = 100
LONGEST_PRONUNCIATION = 100
_LONGEST_RAW = 400
"""In characters that may still be put together, such as half-width kana and their marks."""
_HIGHEST_PRIORITY = 10
_DEAREST, _STEP = 8_000, 1_000

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e]")
_ODD = dict(zip(" \"'-\\`~", "　”’−￥‘〜", strict=True))
# As Open JTalk widens the texts in which it looks for the words.
_WIDE = str.maketrans({chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)} | _ODD)
_NARROW = {ord(wide): chr(narrow) for narrow, wide in _WIDE.items()}


class WordError(ValueError): ...


class WordType(StrEnum):
    PROPER_NOUN = "PROPER_NOUN"
    COMMON_NOUN = "COMMON_NOUN"
    VERB = "VERB"
    ADJECTIVE = "ADJECTIVE"
    SUFFIX = "SUFFIX"


@dataclass(frozen=True)
class PartOfSpeech:
    """A word type in the terms of naist-jdic: its number in the dictionary, and four names."""

    context_id: int
    names: tuple[str, str, str, str]


PARTS_OF_SPEECH = {
    WordType.PROPER_NOUN: PartOfSpeech(1348, ("名詞", "固有名詞", "一般", "*")),
    WordType.COMMON_NOUN: PartOfSpeech(1345, ("名詞", "一般", "*", "*")),
    WordType.VERB: PartOfSpeech(642, ("動詞", "自立", "*", "*")),
    WordType.ADJECTIVE: PartOfSpeech(20, ("形容詞", "自立", "*", "*")),
    WordType.SUFFIX: PartOfSpeech(1358, ("名詞", "接尾", "一般", "*")),
}


@dataclass(frozen=True)
class DictionaryWord:
    """A word and its reading; accent 0 never falls, priority is 0 to 10."""

    surface: str
    pronunciation: str
    accent: int
    type: WordType = WordType.PROPER_NOUN
    priority: int = 5

    @property
    def morae(self) -> int:
        return len(split_morae(self.pronunciation))


def make_word(
    surface: str,
    pronunciation: str,
    accent: int,
    word_type: WordType = WordType.PROPER_NOUN,
    priority: int = 5,
) -> DictionaryWord:
    # The length first: normalising a text of megabytes takes seconds.
    wide = widen(surface.strip()) if len(surface) <= _LONGEST_RAW else ""
    if not 1 <= len(wide) <= LONGEST_SURFACE or _CONTROL.search(wide):
        raise WordError(
            f"surface: expected 1 to {LONGEST_SURFACE} visible characters, found {surface[:40]!r}."
        )
    is_short = len(pronunciation) <= _LONGEST_RAW
    kana = katakana(unicodedata.normalize("NFKC", pronunciation)) if is_short else ""
    morae = split_morae(kana)
    is_speakable = kana[:1] != LONG and all(mora in SOUNDS or mora == LONG for mora in morae)
    if not 1 <= len(kana) <= LONGEST_PRONUNCIATION or not is_speakable:
        raise WordError(f"pronunciation: expected katakana, found {pronunciation[:40]!r}.")
    word = DictionaryWord(wide, kana, accent, word_type, priority)
    if not 0 <= accent <= word.morae:
        raise WordError(f"accent_type: expected 0 to {word.morae}, found {accent}.")
    if not 0 <= priority <= _HIGHEST_PRIORITY:
        raise WordError(f"priority: expected 0 to {_HIGHEST_PRIORITY}, found {priority}.")
    return word


def widen(text: str) -> str:
    """Write a text in wide characters, as Open JTalk does before it looks for words."""
    return unicodedata.normalize("NFC", text).translate(_WIDE)


_UNCHANGED = re.compile("[\u3041-\u30ff\u4e00-\u9fff々]+")
_ENGLISH_WORD = re.compile(r"[A-Za-z]+\d*")


class WrittenWords:
    """The words that writing out a text would change, such as emoji, `a,b` and `hello world`.

    The dictionary never finds them, so their pronunciation is put into the text before.
    """

    def __init__(self, words: Iterable[DictionaryWord]) -> None:
        self._by_first: dict[str, list[tuple[str, str]]] = {}
        for word in words:
            narrow = unicodedata.normalize("NFKC", word.surface)
            if _is_changed(narrow, word.surface):
                for surface in {narrow, word.surface, word.surface.translate(_NARROW)}:
                    found = self._by_first.setdefault(surface[0], [])
                    found.append((surface, word.pronunciation))
                    found.sort(key=lambda each: -len(each[0]))

    def put_into(self, text: str) -> str:
        if not self._by_first:
            return text
        written, place = list[str](), 0
        while place < len(text):
            for surface, pronunciation in self._by_first.get(text[place], ()):
                end = place + len(surface)
                if text.startswith(surface, place) and _is_word(text, place, end):
                    written.append(pronunciation)
                    place = end
                    break
            else:
                written.append(text[place])
                place += 1
        return "".join(written)


def _is_changed(narrow: str, wide: str) -> bool:
    if any(map(is_rare_kanji, narrow)):
        return True
    if _UNCHANGED.fullmatch(narrow):
        return write_out(narrow) != narrow or narrow != wide
    is_one_word = _ENGLISH_WORD.fullmatch(narrow) or not _ENGLISH_WORD.search(narrow)
    return not is_one_word or widen(write_out(narrow)) != wide


def _is_word(text: str, begin: int, end: int) -> bool:
    ends = (text[max(begin - 1, 0) : begin + 1], text[end - 1 : end + 1])
    return not any(len(each) > 1 and each.isascii() and each.isalnum() for each in ends)


def katakana(kana: str) -> str:
    return "".join(chr(ord(sign) + 0x60) if "ぁ" <= sign <= "ゖ" else sign for sign in kana)


def compile_dictionary(words: Iterable[DictionaryWord], folder: Path) -> Path | None:
    """Compile words for front_end.Reader; None if there are no words."""
    import pyopenjtalk  # noqa: PLC0415 - see front_end.Reader

    rows = []
    for word in words:
        # The columns of naist-jdic; wide characters never need quotes.
        part = PARTS_OF_SPEECH[word.type]
        context, names = part.context_id, ",".join(part.names)
        cost = _DEAREST - _STEP * word.priority
        reading = f"{word.pronunciation},{word.pronunciation},{word.accent}/{word.morae}"
        rows.append(f"{word.surface},{context},{context},{cost},{names},*,*,*,{reading},*")
    if not rows:
        return None
    source, compiled = folder / "words.csv", folder / "words.dic"
    source.write_text("".join(f"{row}\n" for row in rows), "utf-8")
    pyopenjtalk.mecab_dict_index(str(source), str(compiled))
    return compiled
