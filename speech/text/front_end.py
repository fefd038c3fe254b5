"""The Japanese front end of a process: loaded by the first text, shared by all engines."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from speech.text.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from speech.text.english import EnglishReader
    from speech.text.reading import Reading, ReadsText


class FrontEnd:
    """Reads Japanese text, and English words in it; any number of threads use it at once.

    Its packages take half a second and 100 MB to load. A process that only converts recordings
    never loads them.

    Args:
        make_reader: makes what knows the words.
        is_own: tells the words of a user's own dictionary, which go before everything else.
    """

    def __init__(
        self,
        make_reader: Callable[[], ReadsText] = Reader,
        is_own: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._make_reader = make_reader
        self._is_own = is_own
        self._reader: ReadsText | None = None
        self._english: EnglishReader | None = None
        self._loading = Lock()

    def read(self, text: str) -> Reading:
        """Find the words of a text and how they are read."""
        return self._loaded_reader().read(text)

    def write(self, text: str) -> str:
        """Write the English words of a text in katakana."""
        return self._loaded_english().write(text)

    def _loaded_reader(self) -> ReadsText:
        with self._loading:
            if self._reader is None:
                self._reader = self._make_reader()
            return self._reader

    def _loaded_english(self) -> EnglishReader:
        reader = self._loaded_reader()
        with self._loading:
            if self._english is None:
                # Its list of words is read when it is needed, not by an import.
                from speech.text.english import EnglishReader, read_words  # noqa: PLC0415

                self._english = EnglishReader(reader, read_words(), self._is_own)
            return self._english
