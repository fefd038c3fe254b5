"""The folder in which a training keeps what it has done, to go on where it was stopped."""

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Made = TypeVar("Made")

SPOKEN_CONSENT = "spoken-consent"
"""How the owner's spoken consent is called in the folder of recordings, whatever its kind."""


@dataclass(frozen=True)
class WorkFolder:
    """Files of one training. It holds parts of the recordings: it is for its owner alone."""

    path: Path

    @classmethod
    def open(cls, path: Path, recordings: Path, choices: str) -> "WorkFolder":
        """Opens the folder; what was made of other recordings or with other choices is removed.

        Args:
            path: the folder, made if it is not there.
            recordings: names, sizes and times of its files are compared, but for the spoken
                consent, which may come when the owner's answers are already kept.
            choices: whatever else the results depend on.
        """
        wanted = _fingerprint(recordings, choices)
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


def _fingerprint(recordings: Path, choices: str) -> str:
    listing = [
        (path.relative_to(recordings).as_posix(), path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(recordings.rglob("*"))
        if path.is_file() and path.stem.lower() != SPOKEN_CONSENT
    ]
    text = json.dumps([str(recordings.resolve()), listing, choices])
    return hashlib.sha256(text.encode()).hexdigest()
