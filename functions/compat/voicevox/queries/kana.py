"""Readings in the notation of AquesTalk, as VOICEVOX uses it.

Katakana; `/` or `、` between accent phrases, where `、` is a pause; `'` after the last high mora,
exactly once in each phrase; `_` before a mora that is whispered; `？` at the end of a question.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from speech.text.phones.accents import AccentPhrase, Mora
from speech.text.phones.morae import SOUNDS, SPEAKABLE_VOWELS, split_morae

_ACCENT, _DEVOICE, _NO_PAUSE, _PAUSE, _QUESTION = "'", "_", "/", "、", "？"
_BORDER = re.compile(f"([{_NO_PAUSE}{_PAUSE}])")
_COMMA = Mora(",", None)
_QUESTION_MORA = Mora("?", None)


class KanaErrorCode(StrEnum):
    """The error in a reading, in VOICEVOX's names."""

    UNKNOWN_TEXT = "UNKNOWN_TEXT"
    ACCENT_TOP = "ACCENT_TOP"
    ACCENT_TWICE = "ACCENT_TWICE"
    ACCENT_NOTFOUND = "ACCENT_NOTFOUND"
    EMPTY_PHRASE = "EMPTY_PHRASE"
    INTERROGATION_MARK_NOT_AT_END = "INTERROGATION_MARK_NOT_AT_END"


_SENTENCES: Mapping[KanaErrorCode, str] = {
    KanaErrorCode.UNKNOWN_TEXT: "読めない仮名です: {text}",
    KanaErrorCode.ACCENT_TOP: "アクセントはアクセント句の先頭に書けません: {text}",
    KanaErrorCode.ACCENT_TWICE: "アクセントはアクセント句に一つだけ書いてください: {text}",
    KanaErrorCode.ACCENT_NOTFOUND: "アクセントがありません: {text}",
    KanaErrorCode.EMPTY_PHRASE: "{position}番目のアクセント句が空です",
    KanaErrorCode.INTERROGATION_MARK_NOT_AT_END: "「？」は句の最後に書いてください: {text}",
}


class KanaError(ValueError):
    """A reading that cannot be understood.

    Attributes:
        code: what is wrong.
        arguments: the part of the reading (`text`), or the number of the phrase (`position`).
    """

    def __init__(self, code: KanaErrorCode, **arguments: str) -> None:
        self.code = code
        self.arguments = arguments
        super().__init__(_SENTENCES[code].format(**arguments))


def parse_kana(text: str) -> list[AccentPhrase]:
    """Read accent phrases from kana.

    Raises:
        KanaError: the text is not in the notation.
    """
    parts = _BORDER.split(text)
    phrases = [_parse_phrase(part, position) for position, part in enumerate(parts[::2], start=1)]
    return [
        replace(phrase, morae=(*phrase.morae, _COMMA)) if border == _PAUSE else phrase
        for phrase, border in zip(phrases, [*parts[1::2], ""], strict=True)
    ]


def _parse_phrase(text: str, position: int) -> AccentPhrase:
    if text in {"", _QUESTION}:
        raise KanaError(KanaErrorCode.EMPTY_PHRASE, position=str(position))
    spoken = text.removesuffix(_QUESTION)
    if _QUESTION in spoken:
        raise KanaError(KanaErrorCode.INTERROGATION_MARK_NOT_AT_END, text=text)
    if spoken.startswith(_ACCENT):
        raise KanaError(KanaErrorCode.ACCENT_TOP, text=text)
    if spoken.count(_ACCENT) > 1:
        raise KanaError(KanaErrorCode.ACCENT_TWICE, text=text)
    before, accent, after = spoken.partition(_ACCENT)
    high, low = list(_parse_morae(before)), list(_parse_morae(after))
    if not accent:
        raise KanaError(KanaErrorCode.ACCENT_NOTFOUND, text=text)
    question = [_QUESTION_MORA] if text.endswith(_QUESTION) else []
    return AccentPhrase((*high, *low, *question), len(high))


def _parse_morae(text: str) -> Iterator[Mora]:
    is_devoiced = False
    for kana in split_morae(text):
        if kana == _DEVOICE and not is_devoiced:
            is_devoiced = True
            continue
        sound = SOUNDS.get(kana)
        if sound is None or (is_devoiced and sound.vowel not in SPEAKABLE_VOWELS):
            raise KanaError(KanaErrorCode.UNKNOWN_TEXT, text=text)
        yield Mora(kana, sound, is_devoiced)
        is_devoiced = False
    if is_devoiced:
        raise KanaError(KanaErrorCode.UNKNOWN_TEXT, text=text)


def write_kana(phrases: Sequence[AccentPhrase]) -> str:
    """Write accent phrases as kana; signs become pauses and question marks."""
    spoken = [phrase for phrase in phrases if phrase.sounding]
    parts = []
    for number, phrase in enumerate(spoken, start=1):
        parts.append(_write_phrase(phrase))
        if number < len(spoken):
            has_pause = len(phrase.sounding) < len(phrase.morae)
            parts.append(_PAUSE if has_pause else _NO_PAUSE)
    return "".join(parts)


def _write_phrase(phrase: AccentPhrase) -> str:
    accent = min(phrase.accent, len(phrase.sounding))
    morae = (
        _DEVOICE * mora.is_devoiced + mora.kana + _ACCENT * (number == accent)
        for number, mora in enumerate(phrase.sounding, start=1)
    )
    return "".join(morae) + _QUESTION * phrase.is_question
