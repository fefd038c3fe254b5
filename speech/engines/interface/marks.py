"""When words and phones begin in speech, for lips and captions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from speech.engines.interface.text_engine import SpeechOptions, TextEngine
    from speech.signal.arrays import Samples


@dataclass(frozen=True, slots=True)
class Mark:
    """Where something begins.

    Attributes:
        kind: what begins.
        text: the word as it is read (numbers and English written out), or the phone as Open JTalk
            names it: `cl` is a closure, `N` the moraic nasal, a capital vowel a whispered one.
        begin: in seconds from the first sample of the piece on.
    """

    kind: Literal["word", "phone"]
    text: str
    begin: float

    def later(self, seconds: float) -> Mark:
        """The same so many seconds later, but never before the first sample."""
        return replace(self, begin=max(self.begin + seconds, 0.0))


@dataclass(frozen=True, eq=False, slots=True)
class MarkedPiece:
    """A piece of speech.

    Attributes:
        samples: float32 [N].
        marks: what begins in it, in order; none where the voice does not know.
    """

    samples: Samples
    marks: tuple[Mark, ...] = ()


@runtime_checkable
class MarkingEngine(Protocol):
    """An engine that knows when words and phones begin."""

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        """Speak a text as `speak` of TextEngine does, the same samples, with marks."""


def speak_marked(engine: TextEngine, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
    """Speak a text with marks, or without any where the engine knows none.

    Raises:
        TextError: see TextEngine.
    """
    if isinstance(engine, MarkingEngine):
        return engine.speak_marked(text, options)
    return map(MarkedPiece, engine.speak(text, options))
