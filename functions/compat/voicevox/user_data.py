"""Kept for clients: presets, and the words of the user dictionary."""

from __future__ import annotations

import tempfile
import threading
import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from functions.compat.service.shared_files import LockedJsonFile
from functions.compat.voicevox.queries import (
    Preset,
    UserDictWord,
    dictionary_word_of,
    user_dict_word_of,
)
from shared.speech.text.dictionary import compile_dictionary, widen
from shared.speech.text.front_end import FrontEnd, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from shared.speech.text.dictionary import DictionaryWord
    from shared.speech.text.front_end import JapaneseReader, Reading


_PRESETS = TypeAdapter(list[Preset])
_WORDS = TypeAdapter(dict[str, UserDictWord])
MOST_PRESETS = 1_000
MOST_WORDS = 10_000


class UserDataFullError(Exception):
    """There is no room for more; one sentence."""


class Presets:
    """Settings that clients keep, by number; any number of threads use them.

    Args:
        file: where they are kept for all processes; None keeps them in this one.
    """

    def __init__(self, file: LockedJsonFile | None = None) -> None:
        self._file = file
        self._presets: dict[int, Preset] = {}
        self._changing = threading.Lock()

    def all(self) -> list[Preset]:
        """List them in the order in which they were added."""
        return list(self._current().values())

    def find(self, preset_id: int) -> Preset | None:
        """Find one; None if there is none."""
        return self._current().get(preset_id)

    def add(self, preset: Preset) -> int:
        """Keep one, under another number if its own is negative or taken; return the number.

        Raises:
            UserDataFullError: there are too many.
        """
        with self._change() as presets:
            if len(presets) >= MOST_PRESETS:
                raise UserDataFullError(f"expected at most {MOST_PRESETS} presets")
            number = preset.id
            if number < 0 or number in presets:
                number = next(free for free in count(1) if free not in presets)
            presets[number] = preset.model_copy(update={"id": number})
        return number

    def update(self, preset: Preset) -> bool:
        """Replace one; False if there is none of its number."""
        with self._change() as presets:
            is_known = preset.id in presets
            if is_known:
                presets[preset.id] = preset
        return is_known

    def delete(self, preset_id: int) -> bool:
        """Forget one; False if there is none of that number."""
        with self._change() as presets:
            return presets.pop(preset_id, None) is not None

    def _current(self) -> dict[int, Preset]:
        presets = None if self._file is None else self._file.read_new(_PRESETS)
        if presets is not None:
            self._presets = {each.id: each for each in presets}
        return self._presets

    @contextmanager
    def _change(self) -> Iterator[dict[int, Preset]]:
        """Change a copy of the presets, which are those of everybody from then on."""
        with self._changing, nullcontext() if self._file is None else self._file.changing():
            presets = dict(self._current())
            yield presets
            if presets != self._presets:
                self._presets = presets
                if self._file is not None:
                    self._file.write(_PRESETS.dump_json(list(presets.values()), by_alias=True))


class UserDictionary:
    """Words that clients read otherwise, and a reader that knows them; threads may share it.

    Args:
        file: where the words are kept for all processes; None keeps them in this one.
    """

    def __init__(
        self,
        make_reader: Callable[[Path | None], JapaneseReader] = Reader,
        file: LockedJsonFile | None = None,
    ) -> None:
        self._make_reader = make_reader
        self._file = file
        self._words: dict[str, DictionaryWord] = {}
        self._surfaces: frozenset[str] = frozenset()
        self._reader: JapaneseReader | None = None
        self._changing = threading.Lock()

    def read(self, text: str) -> Reading:
        """Read with the words of now; see shared.speech.text.front_end.Reader."""
        return self._loaded().read(text)

    def _loaded(self) -> JapaneseReader:
        """Return the reader; the first text loads the front end, not a process without texts."""
        reader = self._reader
        if reader is None:
            with self._changing:
                if self._reader is None:
                    self._reader = self._make_reader(None)
                reader = self._reader
        return reader

    def has(self, surface: str) -> bool:
        """Whether somebody added this word, written like this."""
        return widen(surface) in self._surfaces

    def words(self) -> Mapping[str, DictionaryWord]:
        """List the words by their UUID."""
        return dict(self._words)

    def refresh(self) -> None:
        """Take over what other processes have changed."""
        if self._file is None:
            return
        with self._changing:
            self._take_over()

    def add(self, word: DictionaryWord) -> str:
        """Take a word in; return its UUID.

        Raises:
            UserDataFullError: there are too many.
        """
        number = str(uuid.uuid4())
        self.merge({number: word}, override=False)
        return number

    def update(self, number: str, word: DictionaryWord) -> bool:
        """Replace a word; False if there is none of that UUID."""
        with self._change() as words:
            is_known = number in words
            if is_known:
                words[number] = word
        return is_known

    def delete(self, number: str) -> bool:
        """Forget a word; False if there is none of that UUID."""
        with self._change() as words:
            return words.pop(number, None) is not None

    def merge(self, words: Mapping[str, DictionaryWord], *, override: bool) -> None:
        """Take words in; those whose UUID is known replace others only if override says so.

        Raises:
            UserDataFullError: there are too many.
        """
        with self._change() as kept:
            both = kept | dict(words) if override else dict(words) | kept
            if len(both) > MOST_WORDS:
                raise UserDataFullError(f"expected at most {MOST_WORDS} words")
            kept.update(both)

    @contextmanager
    def _change(self) -> Iterator[dict[str, DictionaryWord]]:
        """Change a copy of the words, which are those of everybody from then on."""
        with self._changing, nullcontext() if self._file is None else self._file.changing():
            self._take_over()
            words = dict(self._words)
            yield words
            if words != self._words:
                self._use(words)
                if self._file is not None:
                    bodies = {number: user_dict_word_of(word) for number, word in words.items()}
                    self._file.write(_WORDS.dump_json(bodies))

    def _take_over(self) -> None:
        bodies = None if self._file is None else self._file.read_new(_WORDS)
        if bodies is not None:
            self._use({number: dictionary_word_of(body) for number, body in bodies.items()})

    def _use(self, words: dict[str, DictionaryWord]) -> None:
        """Compile words beside those in use, and read with them from then on."""
        # The reader maps the compiled words into memory, so they need no name from then on, and a
        # process that is killed leaves none behind. Windows keeps mapped files for a while.
        with tempfile.TemporaryDirectory(
            prefix="dictionary-", ignore_cleanup_errors=True
        ) as folder:
            self._reader = self._make_reader(compile_dictionary(words.values(), Path(folder)))
        self._words = words
        self._surfaces = frozenset(word.surface for word in words.values())


@dataclass(frozen=True, slots=True)
class UserData:
    """What clients leave with the service."""

    presets: Presets
    dictionary: UserDictionary

    @classmethod
    def opened(cls, folder: Path | None = None) -> UserData:
        """Open the presets and words of a folder; None keeps them in this process."""
        if folder is None:
            return cls(Presets(), UserDictionary())
        folder.mkdir(parents=True, exist_ok=True)
        presets, words = (
            LockedJsonFile(folder / "presets.json"),
            LockedJsonFile(folder / "words.json"),
        )
        dictionary = UserDictionary(file=words)
        dictionary.refresh()
        return cls(Presets(presets), dictionary)

    def front_end(self) -> FrontEnd:
        """Build the front end that reads texts with the clients' words."""
        return FrontEnd(lambda: self.dictionary, self.dictionary.has)
