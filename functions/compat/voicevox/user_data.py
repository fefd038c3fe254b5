"""The presets and the words that clients leave with the service."""

from __future__ import annotations

import tempfile
import threading
import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

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
    from contextlib import AbstractContextManager

    from shared.speech.text.dictionary import DictionaryWord
    from shared.speech.text.front_end import JapaneseReader, Reading


_PRESETS = TypeAdapter(list[Preset])
_WORDS = TypeAdapter(dict[str, UserDictWord])
_Id = TypeVar("_Id")
_Entry = TypeVar("_Entry")
MOST_PRESETS = 1_000
MOST_WORDS = 10_000


class UserDataFullError(Exception):
    """A client adds more than fits; one sentence."""


class Presets:
    """Settings of clients by number; any number of threads use them.

    Args:
        file: shared by all processes; None for one process.
    """

    def __init__(self, file: LockedJsonFile | None = None) -> None:
        self._file = file
        self._presets: dict[int, Preset] = {}
        self._lock = threading.Lock()

    def all(self) -> list[Preset]:
        """List them in the order in which they were added."""
        return list(self._current().values())

    def find(self, preset_id: int) -> Preset | None:
        return self._current().get(preset_id)

    def add(self, preset: Preset) -> int:
        """Add one, under another number if its own is negative or in use; return the number."""
        with self._change() as presets:
            if len(presets) >= MOST_PRESETS:
                raise UserDataFullError(f"expected at most {MOST_PRESETS} presets")
            number = preset.id
            if number < 0 or number in presets:
                number = next(free for free in count(1) if free not in presets)
            presets[number] = preset.model_copy(update={"id": number})
        return number

    def update(self, preset: Preset) -> bool:
        with self._change() as presets:
            return _replace(presets, preset.id, preset)

    def delete(self, preset_id: int) -> bool:
        with self._change() as presets:
            return presets.pop(preset_id, None) is not None

    def _current(self) -> dict[int, Preset]:
        presets = None if self._file is None else self._file.read_new(_PRESETS)
        if presets is not None:
            self._presets = {each.id: each for each in presets}
        return self._presets

    @contextmanager
    def _change(self) -> Iterator[dict[int, Preset]]:
        """Change a copy, which everybody uses afterwards."""
        with self._lock, _locked(self._file):
            presets = dict(self._current())
            yield presets
            if presets != self._presets:
                self._presets = presets
                if self._file is not None:
                    self._file.write(_PRESETS.dump_json(list(presets.values()), by_alias=True))


class UserDictionary:
    """Words of clients, and a reader that knows them; any number of threads use it.

    Args:
        file: shared by all processes; None for one process.
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
        self._lock = threading.Lock()

    def read(self, text: str) -> Reading:
        """Read a text with the current words; see JapaneseReader."""
        reader = self._reader
        if reader is None:  # the first text loads the front end, not a process without texts
            with self._lock:
                reader = self._reader = self._reader or self._make_reader(None)
        return reader.read(text)

    def has(self, surface: str) -> bool:
        """Return whether a client added this word, in this spelling."""
        return widen(surface) in self._surfaces

    def words(self) -> Mapping[str, DictionaryWord]:
        return dict(self._words)

    def refresh(self) -> None:
        """Read the changes of other processes."""
        if self._file is not None:
            with self._lock:
                self._read_file()

    def add(self, word: DictionaryWord) -> str:
        """Add a word; return its UUID."""
        number = str(uuid.uuid4())
        self.merge({number: word}, override=False)
        return number

    def update(self, number: str, word: DictionaryWord) -> bool:
        with self._change() as words:
            return _replace(words, number, word)

    def delete(self, number: str) -> bool:
        with self._change() as words:
            return words.pop(number, None) is not None

    def merge(self, words: Mapping[str, DictionaryWord], *, override: bool) -> None:
        """Add words; those with a known UUID replace others only if override says so."""
        with self._change() as known:
            both = known | dict(words) if override else dict(words) | known
            if len(both) > MOST_WORDS:
                raise UserDataFullError(f"expected at most {MOST_WORDS} words")
            known.update(both)

    @contextmanager
    def _change(self) -> Iterator[dict[str, DictionaryWord]]:
        """Change a copy, which everybody uses afterwards."""
        with self._lock, _locked(self._file):
            self._read_file()
            words = dict(self._words)
            yield words
            if words != self._words:
                self._use(words)
                if self._file is not None:
                    bodies = {number: user_dict_word_of(word) for number, word in words.items()}
                    self._file.write(_WORDS.dump_json(bodies))

    def _read_file(self) -> None:
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


def _locked(file: LockedJsonFile | None) -> AbstractContextManager[None]:
    return nullcontext() if file is None else file.lock()


def _replace(entries: dict[_Id, _Entry], number: _Id, entry: _Entry) -> bool:
    is_known = number in entries
    if is_known:
        entries[number] = entry
    return is_known


@dataclass(frozen=True, slots=True)
class UserData:
    """The presets and words of all clients."""

    presets: Presets
    dictionary: UserDictionary

    @classmethod
    def open(cls, folder: Path | None = None) -> UserData:
        """Open the presets and words of a folder; None keeps them in this process."""
        if folder is None:
            return cls(Presets(), UserDictionary())
        folder.mkdir(parents=True, exist_ok=True)
        dictionary = UserDictionary(file=LockedJsonFile(folder / "words.json"))
        dictionary.refresh()
        return cls(Presets(LockedJsonFile(folder / "presets.json")), dictionary)

    def front_end(self) -> FrontEnd:
        """Build the front end that reads texts with the clients' words."""
        return FrontEnd(lambda: self.dictionary, self.dictionary.has)
