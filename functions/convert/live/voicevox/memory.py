"""What clients leave with one instance: presets, and the words of the user dictionary."""

from __future__ import annotations

import shutil
import tempfile
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from speech.text.dictionary import compile_dictionary, widen
from speech.text.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from speech.text.dictionary import DictionaryWord
    from speech.text.reading import Reading, ReadsText
    from speech.voicevox.models import Preset

MOST_PRESETS = 1_000
MOST_WORDS = 10_000


class FullError(Exception):
    """There is no room for more; one sentence."""


class Presets:
    """Settings that clients keep, by number; any number of threads use them."""

    def __init__(self) -> None:
        self._presets: dict[int, Preset] = {}
        self._changing = threading.Lock()

    def all(self) -> list[Preset]:
        """List them in the order in which they were added."""
        return list(self._presets.values())

    def find(self, preset_id: int) -> Preset | None:
        """Find one; None if there is none."""
        return self._presets.get(preset_id)

    def add(self, preset: Preset) -> int:
        """Keep one, under another number if its own is negative or taken; return the number.

        Raises:
            FullError: there are too many.
        """
        with self._changing:
            if len(self._presets) >= MOST_PRESETS:
                raise FullError(f"expected at most {MOST_PRESETS} presets")
            number = preset.id
            if number < 0 or number in self._presets:
                number = max(self._presets, default=0) + 1
            self._presets[number] = preset.model_copy(update={"id": number})
        return number

    def update(self, preset: Preset) -> bool:
        """Replace one; False if there is none of its number."""
        with self._changing:
            if preset.id not in self._presets:
                return False
            self._presets[preset.id] = preset
        return True

    def delete(self, preset_id: int) -> bool:
        """Forget one; False if there is none of that number."""
        with self._changing:
            return self._presets.pop(preset_id, None) is not None


class UserDictionary:
    """Words that clients read otherwise, and a reader that knows them; threads may share it.

    Args:
        make_reader: makes a reader that knows a compiled dictionary, or none.
    """

    def __init__(self, make_reader: Callable[[Path | None], ReadsText] = Reader) -> None:
        self._make_reader = make_reader
        self._words: dict[str, DictionaryWord] = {}
        self._surfaces: frozenset[str] = frozenset()
        self._reader = make_reader(None)
        self._folder: Path | None = None
        self._changing = threading.Lock()

    def read(self, text: str) -> Reading:
        """Read with the words of now; see speech.text.reading.Reader."""
        return self._reader.read(text)

    def has(self, surface: str) -> bool:
        """Whether somebody added this word, written like this."""
        return widen(surface) in self._surfaces

    def words(self) -> Mapping[str, DictionaryWord]:
        """List the words by their UUID."""
        return dict(self._words)

    def add(self, word: DictionaryWord) -> str:
        """Take a word in; return its UUID.

        Raises:
            FullError: there are too many.
        """
        number = str(uuid.uuid4())
        self.merge({number: word}, override=False)
        return number

    def update(self, number: str, word: DictionaryWord) -> bool:
        """Replace a word; False if there is none of that UUID."""
        with self._changing:
            if number not in self._words:
                return False
            self._use(self._words | {number: word})
        return True

    def delete(self, number: str) -> bool:
        """Forget a word; False if there is none of that UUID."""
        with self._changing:
            if number not in self._words:
                return False
            self._use({key: word for key, word in self._words.items() if key != number})
        return True

    def merge(self, words: Mapping[str, DictionaryWord], *, override: bool) -> None:
        """Take words in; those whose UUID is known replace others only if override says so.

        Raises:
            FullError: there are too many.
        """
        with self._changing:
            both = self._words | dict(words) if override else dict(words) | self._words
            if len(both) > MOST_WORDS:
                raise FullError(f"expected at most {MOST_WORDS} words")
            self._use(both)

    def close(self) -> None:
        """Remove the compiled dictionary."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _use(self, words: dict[str, DictionaryWord]) -> None:
        """Compile words beside those in use, and read with them from then on."""
        folder = Path(tempfile.mkdtemp(prefix="dictionary-"))
        self._reader = self._make_reader(compile_dictionary(words.values(), folder))
        self._words = words
        self._surfaces = frozenset(word.surface for word in words.values())
        # The old one stays mapped by those who still read with it, also when it has no name.
        self.close()
        self._folder = folder
