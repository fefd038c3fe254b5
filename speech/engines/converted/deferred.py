"""An engine that is built by the first text."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from speech.engines.interface.marks import speak_marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from speech.engines.interface.marks import MarkedPiece
    from speech.engines.interface.text_engine import PhraseEngine, SpeechOptions
    from speech.signal.arrays import Samples
    from speech.text.phones.accents import AccentPhrase


class DeferredEngine:
    """Builds an engine when the first text comes, and speaks with it; see PhraseEngine.

    A process that only converts recordings spends neither time nor memory on it.

    Args:
        sample_rate: of the speech, in Hz.
        build: builds the engine; it is called once.
    """

    def __init__(self, sample_rate: int, build: Callable[[], PhraseEngine]) -> None:
        self._sample_rate = sample_rate
        self._build = build
        self._built: PhraseEngine | None = None
        self._building = Lock()

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""
        return self._sample_rate

    def estimate(self, text: str, options: SpeechOptions) -> float:
        """Estimate how long the speech of a text is; see TextEngine."""
        return self._engine().estimate(text, options)

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        """Speak a text; see TextEngine."""
        return self._engine().speak(text, options)

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        """Speak a text with marks, if the engine knows them; see MarkingEngine."""
        return speak_marked(self._engine(), text, options)

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        """Find the accent phrases of a text; see PhraseEngine."""
        return self._engine().read_phrases(text)

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        """Speak accent phrases; see PhraseEngine."""
        return self._engine().speak_phrases(phrases, text, options)

    def _engine(self) -> PhraseEngine:
        with self._building:
            if self._built is None:
                self._built = self._build()
            return self._built
