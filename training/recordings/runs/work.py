"""The folder in which a training keeps what it has done, to go on where it was stopped."""

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from training.recordings.runs.errors import RecordingsError

Made = TypeVar("Made")
_FORM = "average voice, vectors in every block"  # what was kept in another form is made anew

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
        """Opens the folder; what was made of other recordings or with other choices is removed.

        Args:
            path: the folder, made if it is not there.
            recordings: names, sizes and times of its files are compared, but for the spoken
                consent, which may come when the owner's answers are already kept.
            choices: whatever else the results depend on.
            beside: folders of more recordings, whose files are compared in the same way; None
                for those that come with the training.

        Raises:
            RecordingsError: there is no such folder; nothing is removed then.
        """
        folders = [recordings, *(folder for folder in beside if folder is not None)]
        for folder in folders:
            if not folder.is_dir():
                raise RecordingsError(f"{folder}: expected a folder with recordings, found none.")
        wanted = _fingerprint(folders, choices)
        stamp = path / "made_of.txt"
        if path.exists() and (not stamp.exists() or stamp.read_text() != wanted):
            shutil.rmtree(path)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp.write_text(wanted)
        return cls(path)

    def kept(self, name: str, make: Callable[[], Made]) -> Made:
        """What was made before under this name, or is made now."""
        if self.has(name):
            kept: Made = self.read(name)
            return kept
        made = make()
        partial = self._file(name).with_suffix(".partial")
        partial.write_bytes(pickle.dumps(made))
        partial.replace(self._file(name))
        return made

    def has(self, name: str) -> bool:
        """Whether something was made under this name."""
        return self._file(name).exists()

    def read(self, name: str) -> Any:
        """What was made under this name."""
        return pickle.loads(self._file(name).read_bytes())

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.pickle"

    @property
    def megabytes(self) -> float:
        """How much room it takes."""
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file()) / 1e6

    @property
    def listening(self) -> Path:
        """Where samples, pictures and the page for the owner's ear are put."""
        return self.path / "listen"


def _fingerprint(folders: Iterable[Path], choices: str) -> str:
    parts = [_files(folder) for folder in folders]
    return hashlib.sha256(json.dumps([*parts, choices, _FORM]).encode()).hexdigest()


def _files(folder: Path) -> list[tuple[str, int, int]]:
    return [
        (file.relative_to(folder).as_posix(), file.stat().st_size, file.stat().st_mtime_ns)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.stem.lower() != SPOKEN_CONSENT
    ]
