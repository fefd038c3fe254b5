"""The one error of a training from recordings."""

import hashlib
import json
import pickle
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeVar

from shared.characters.own.own_character import TrainingErrorCode


class RecordingsError(ValueError):
    """A character cannot be made of the recordings; the message is one sentence that says why."""

    def __init__(
        self,
        message: str,
        code: TrainingErrorCode = TrainingErrorCode.RECORDINGS_REFUSED,
        files: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.files = files


_EVERY_SECONDS = {True: 0.5, False: 10.0}


@dataclass
class TrainingProgress:
    """One line for each stage; on a terminal it is written anew all the time."""

    stages: int
    out: TextIO = field(default_factory=lambda: sys.stdout)
    _stage: int = 0
    _name: str = ""
    _began: float = 0.0
    _first: float = 0
    _shown: float = 0.0

    def begin(self, name: str) -> None:
        self._end_line()
        self._stage += 1
        self._name = name
        self._began, self._first, self._shown = time.monotonic(), -1, 0.0
        self._write("")

    def report(self, done: float, total: float, note: str = "") -> None:
        now = time.monotonic()
        if self._first < 0:
            # After a break the stage goes on from here.
            self._first = done - 1
        if total <= 0 or (now - self._shown < _EVERY_SECONDS[self.out.isatty()] and done < total):
            return
        self._shown = now
        steps = max(done - self._first, 1)
        left = (now - self._began) / steps * (total - done)
        notes = [f"{done / total:4.0%}", f"{clock(left)} left", note]
        self._write(", ".join(part for part in notes if part))

    def say(self, sentence: str) -> None:
        self._end_line()
        self.out.write(f"{sentence}\n")
        self.out.flush()

    def _write(self, text: str) -> None:
        line = f"[{self._stage}/{self.stages}] {self._name} {text}".rstrip()
        if self.out.isatty():
            self.out.write(f"\r\x1b[K{line}")
        else:
            self.out.write(f"{line}\n")
        self.out.flush()

    def _end_line(self) -> None:
        if self._stage and self.out.isatty():
            self.out.write("\n")


def clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}"


Made = TypeVar("Made")
_FORM = "average voice, vectors in every block"  # what was kept in another form is made anew

_PART = "part-"
SPOKEN_CONSENT = "spoken-consent"
"""How the owner's spoken consent is called in the folder of recordings, whatever its kind."""


@dataclass(frozen=True)
class WorkFolder:
    """Files of one training. It holds parts of the recordings: it is for its owner alone."""

    path: Path

    @classmethod
    def open(
        cls, path: Path, recordings: Path, choices: str, beside: Iterable[Path | None] = ()
    ) -> "WorkFolder":
        """Open the folder; what was made of other recordings or with other choices is removed.

        RecordingsError: there is no such folder of recordings; nothing is removed then.
        """
        folders = [recordings, *(folder for folder in beside if folder is not None)]
        for folder in folders:
            if not folder.is_dir():
                raise RecordingsError(f"{folder}: expected a folder with recordings, found none.")
        wanted = fingerprint(folders, choices)
        stamp = path / "made_of.txt"
        if path.exists() and (not stamp.exists() or stamp.read_text() != wanted):
            shutil.rmtree(path)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp.write_text(wanted)
        return cls(path)

    def kept(self, name: str, make: Callable[[], Made]) -> Made:
        if self.has(name):
            kept: Made = self.read(name)
            return kept
        made = make()
        partial = self._file(name).with_suffix(".partial")
        partial.write_bytes(pickle.dumps(made))
        partial.replace(self._file(name))
        return made

    def keep_part(self, name: str, make: Callable[[], Made]) -> Made:
        return self.kept(f"{_PART}{hashlib.sha256(name.encode()).hexdigest()}", make)

    def forget_parts(self) -> None:
        for file in self.path.glob(f"{_PART}*"):
            file.unlink()

    def has(self, name: str) -> bool:
        return self._file(name).exists()

    def read(self, name: str) -> Any:
        return pickle.loads(self._file(name).read_bytes())

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.pickle"

    @property
    def megabytes(self) -> float:
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file()) / 1e6

    @property
    def listening(self) -> Path:
        return self.path / "listen"


def fingerprint(folders: Iterable[Path], choices: str) -> str:
    parts = [
        [
            (file.relative_to(folder).as_posix(), file.stat().st_size, file.stat().st_mtime_ns)
            for file in sorted(folder.rglob("*"))
            if file.is_file() and file.stem.lower() != SPOKEN_CONSENT
        ]
        for folder in folders
    ]
    return hashlib.sha256(json.dumps([*parts, choices, _FORM]).encode()).hexdigest()
