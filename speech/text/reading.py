"""The words of a Japanese text, how each is read, and how high: Open JTalk's front end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_DEVOICED = "’"
_LONG = "ー"
_MARKS = ("、", "？", "！")


@dataclass(frozen=True)
class Word:
    """One word as Open JTalk finds it.

    Attributes:
        text: as it is written, in wide characters.
        reading: how it is pronounced, in katakana; `、` for what has no pronunciation.
        part_of_speech: such as `名詞`.
        chained: whether it belongs to the accent phrase of the word before it.
    """

    text: str
    reading: str
    part_of_speech: str
    chained: bool


@dataclass(frozen=True)
class Reading:
    """How a text is read.

    Attributes:
        words: its words.
        labels: its full-context labels, one for each phone, silence at both ends
            (https://hts.sp.nitech.ac.jp, the Japanese demo's `lab_format.pdf`); none if the text
            has no words.
    """

    words: tuple[Word, ...]
    labels: tuple[str, ...]


class ReadsText(Protocol):
    """Knows how Japanese text is read; any number of threads ask at once."""

    def read(self, text: str) -> Reading:
        """Find the words of a text and how they are read."""


class Reader:
    """Reads Japanese text aloud to itself; one instance serves any number of threads.

    The package behind it takes half a second and 90 MB to load, so that it is loaded by the first
    Reader and not by an import.

    Args:
        user_dictionary: a compiled dictionary that goes before the built-in one, or None.
    """

    def __init__(self, user_dictionary: Path | None = None) -> None:
        # The package starts threads when it is imported, which would not survive a fork.
        import pyopenjtalk  # noqa: PLC0415
        from pyopenjtalk.openjtalk import OpenJTalk  # noqa: PLC0415

        self._package: Any = pyopenjtalk
        user = str(user_dictionary).encode() if user_dictionary else b""
        self._dictionary = OpenJTalk(dn_mecab=pyopenjtalk.OPEN_JTALK_DICT_DIR, userdic=user)

    def read(self, text: str) -> Reading:
        """Find the words of a text and how they are read.

        Args:
            text: a sentence or a few; each call takes about 1 ms, longer texts in proportion.
        """
        features = self._package.run_frontend(text, jtalk=self._dictionary)
        spoken = speakable(features)
        labels = self._package.make_label(spoken, jtalk=self._dictionary) if spoken else ()
        words = tuple(
            Word(
                feature["string"],
                feature["pron"].replace(_DEVOICED, ""),
                feature["pos"],
                feature["chain_flag"] == 1,
            )
            for feature in features
        )
        return Reading(words, tuple(labels))


def speakable(features: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what no label is made of: long vowels after nothing, marks before every word.

    Open JTalk leaves them out itself, but writes a line to stderr for each, where a service's log
    is.

    Args:
        features: words as Open JTalk describes them.
    """
    spoken: list[dict[str, Any]] = []
    is_after_mark = True
    for feature in features:
        sound = feature["pron"].lstrip(_LONG) if is_after_mark else feature["pron"]
        if not sound or (sound in _MARKS and not spoken):
            continue
        is_after_mark = sound in _MARKS
        spoken.append(feature | {"pron": sound})
    return spoken
