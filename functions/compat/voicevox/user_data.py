"""The presets and the words that clients leave with the service."""

from __future__ import annotations

import tempfile
import threading
import uuid
from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import TypeAdapter

from functions.compat.service.shared_files import LockedJsonFile
from functions.compat.voicevox.queries import (
    Preset,
    UserDictWord,
    dictionary_word_of,
    user_dict_word_of,
)
from shared.speech.text.dictionary import WrittenWords, compile_dictionary, widen
from shared.speech.text.front_end import FrontEnd, Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.speech.text.dictionary import DictionaryWord
    from shared.speech.text.front_end import Reading


_PRESETS = TypeAdapter(list[Preset])
_WORDS = TypeAdapter(dict[str, UserDictWord])
_Id = TypeVar("_Id")
_Entry = TypeVar("_Entry")
MOST_PRESETS = 1_000
MOST_WORDS = 10_000


class UserDataFullError(Exception):
    """A client adds more than fits; one sentence."""


class _Entries(ABC, Generic[_Id, _Entry]):
    """Entries of clients; any number of threads use them, and processes that share the file."""

    def __init__(self, file: LockedJsonFile | None = None) -> None:
        self._file = file
        self._entries: dict[_Id, _Entry] = {}
        self._lock = threading.Lock()

    def update(self, number: _Id, entry: _Entry) -> bool:
        """Replace an entry; False if there is none of that number."""
        with self._change() as entries:
            is_known = number in entries
            if is_known:
                entries[number] = entry
        return is_known

    def delete(self, number: _Id) -> bool:
        """Delete an entry; False if there is none of that number."""
        with self._change() as entries:
            return entries.pop(number, None) is not None

    @contextmanager
    def _change(self) -> Iterator[dict[_Id, _Entry]]:
        with self._lock, nullcontext() if self._file is None else self._file.lock():
            self._read_file()
            entries = dict(self._entries)
            yield entries
            if entries != self._entries:
                self._use(entries)
                if self._file is not None:
                    self._write_file(self._file)

    def _use(self, entries: dict[_Id, _Entry]) -> None:
        self._entries = entries

    @abstractmethod
    def _read_file(self) -> None:
        """Use the content of the file, if it has changed."""

    @abstractmethod
    def _write_file(self, file: LockedJsonFile) -> None: ...


class Presets(_Entries[int, Preset]):
    def all(self) -> list[Preset]:
        self._read_file()
        return list(self._entries.values())

    def find(self, preset_id: int) -> Preset | None:
        self._read_file()
        return self._entries.get(preset_id)

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

    def _read_file(self) -> None:
        presets = None if self._file is None else self._file.read_new(_PRESETS)
        if presets is not None:
            self._use({each.id: each for each in presets})

    def _write_file(self, file: LockedJsonFile) -> None:
        file.write(_PRESETS.dump_json(list(self._entries.values()), by_alias=True))


class UserDictionary(_Entries[str, "DictionaryWord"]):
    def __init__(self, file: LockedJsonFile | None = None) -> None:
        super().__init__(file)
        self._surfaces: frozenset[str] = frozenset()
        self._written = WrittenWords(())
        self._reader: Reader | None = None

    def read(self, text: str) -> Reading:
        reader = self._reader
        if reader is None:  # the first text loads the front end, not a process without texts
            with self._lock:
                reader = self._reader = self._reader or Reader()
        return reader.read(text)

    def has(self, surface: str) -> bool:
        return widen(surface) in self._surfaces

    def put_into(self, text: str) -> str:
        return self._written.put_into(text)

    def words(self) -> Mapping[str, DictionaryWord]:
        return dict(self._entries)

    def refresh(self) -> None:
        if self._file is not None:
            with self._lock:
                self._read_file()

    def add(self, word: DictionaryWord) -> str:
        number = str(uuid.uuid4())
        self.merge({number: word}, override=False)
        return number

    def merge(self, words: Mapping[str, DictionaryWord], *, override: bool) -> None:
        """Add words; those with a known UUID replace others only if override says so."""
        with self._change() as known:
            both = known | dict(words) if override else dict(words) | known
            if len(both) > MOST_WORDS:
                raise UserDataFullError(f"expected at most {MOST_WORDS} words")
            known.update(both)

    def _read_file(self) -> None:
        bodies = None if self._file is None else self._file.read_new(_WORDS)
        if bodies is not None:
            self._use({number: dictionary_word_of(body) for number, body in bodies.items()})

    def _write_file(self, file: LockedJsonFile) -> None:
        bodies = {number: user_dict_word_of(word) for number, word in self._entries.items()}
        file.write(_WORDS.dump_json(bodies))

    def _use(self, entries: dict[str, DictionaryWord]) -> None:
        """Compile words beside those in use, and read with them from then on."""
        # The reader maps the compiled words into memory, so they need no name from then on, and a
        # process that is killed leaves none behind. Windows keeps mapped files for a while.
        with tempfile.TemporaryDirectory(
            prefix="dictionary-", ignore_cleanup_errors=True
        ) as folder:
            self._reader = Reader(compile_dictionary(entries.values(), Path(folder)))
        super()._use(entries)
        self._surfaces = frozenset(word.surface for word in entries.values())
        self._written = WrittenWords(entries.values())


@dataclass(frozen=True, slots=True)
class UserData:
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
        dictionary = self.dictionary
        return FrontEnd(lambda: dictionary, dictionary.has, dictionary.put_into)
