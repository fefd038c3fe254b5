"""The sentence with which an owner gives consent aloud: today's date and four random words.

Nobody has a recording of it beforehand, so its speaker consents now. It needs no packages: the
command shows it at the terminal, and the page in the browser.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Language = Literal["en", "ja"]

HOLDS_DAYS: Final = 7
"""The days after it was drawn on which a sentence may be spoken."""

_WORDS_DRAWN: Final = 4
# Common words of two syllables or more, none of which sounds like another.
_ENGLISH: Final = """
apple basket butter button candle carpet castle chicken coffee cookie cotton dinner
doctor elephant finger flower forest garden hammer island jacket kitchen ladder lemon
letter market mirror monkey mountain music number orange paper pencil pepper picture
pillow pocket potato rabbit river saddle school shoulder silver spider summer table
teacher tiger tomato tower umbrella village water window winter yellow
"""
_JAPANESE: Final = """
りんご みかん さくら うさぎ たまご つくえ とけい ぼうし かばん めがね でんわ
くるま ひこうき じてんしゃ えんぴつ てぶくろ かいだん だいどころ ともだち
せんせい がっこう びょういん としょかん ゆうびん こうえん しんぶん おんがく
ひまわり たんぽぽ かたつむり にわとり きつね たぬき ペンギン パンダ ピアノ
ギター カメラ トマト バナナ レモン スプーン ハンカチ ポケット カレンダー
みずうみ かみなり ゆきだるま おにぎり やきいも
"""
_WORDS: Final[Mapping[Language, Sequence[str]]] = MappingProxyType(
    {"en": _ENGLISH.split(), "ja": _JAPANESE.split()}
)
_MONTHS: Final = (
    "January February March April May June July August September October November December"
)


@dataclass(frozen=True, slots=True)
class ConsentSentence:
    """The sentence that an owner is asked to say."""

    language: Language
    day: dt.date
    words: tuple[str, ...]

    @property
    def month(self) -> str:
        return _MONTHS.split()[self.day.month - 1]

    @property
    def date(self) -> str:
        """The day as it is said."""
        if self.language == "ja":
            return f"{self.day.year}年{self.day.month}月{self.day.day}日"
        return f"{self.month} {self.day.day}, {self.day.year}"

    @property
    def text(self) -> str:
        if self.language == "ja":
            return (
                f"今日は{self.date}です。わたしの録音から、合成音声を作ることに同意します。"
                f"{'、'.join(self.words)}。"
            )
        first, *others = self.words
        return (
            f"Today is {self.date}. I agree that a synthetic voice is made of my recordings."
            f" {', '.join((first.capitalize(), *others))}."
        )

    def holds_on(self, day: dt.date) -> bool:
        """Return whether it may still be spoken on a day."""
        return dt.timedelta() <= day - self.day <= dt.timedelta(days=HOLDS_DAYS)

    @property
    def last_day(self) -> dt.date:
        """The last day on which it may be spoken."""
        return self.day + dt.timedelta(days=HOLDS_DAYS)

    def to_json(self) -> str:
        return json.dumps(
            {"language": self.language, "day": self.day.isoformat(), "words": self.words},
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the JSON of `to_json`; ValueError if it is none."""
        try:
            said = json.loads(text)
            words = tuple(map(str, said["words"]))
            language, day = said["language"], dt.date.fromisoformat(said["day"])
        except (KeyError, TypeError) as error:
            raise ValueError("expected a sentence of a spoken consent") from error
        if language not in _WORDS or len(words) != _WORDS_DRAWN:
            raise ValueError("expected a sentence of a spoken consent")
        return cls(language, day, words)


def draw_sentence(
    language: Language, day: dt.date, chance: random.Random | None = None
) -> ConsentSentence:
    """Draw a sentence; without `chance`, the system's source makes it unpredictable."""
    words = (chance or random.SystemRandom()).sample(_WORDS[language], _WORDS_DRAWN)
    return ConsentSentence(language, day, tuple(words))
