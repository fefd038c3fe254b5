"""A file in which several processes keep something together."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import ValidationError

from shared.process.locking import locked
from shared.process.reading import read_at_most
from shared.process.settings import SettingsError
from shared.process.writing import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic import TypeAdapter

Kept = TypeVar("Kept")
MOST_BYTES: Final = 64 << 20
"""The largest file that is read: ten thousand of the longest words have less."""


class KeptFile:
    """A file that is always whole; whoever changes it locks out the others.

    Args:
        path: of the file; its folder exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None

    def read_new(self, kind: TypeAdapter[Kept]) -> Kept | None:
        """Return the content if it is another one than before, else None.

        Args:
            kind: of the content, which is JSON.

        Raises:
            SettingsError: it cannot be read, is larger than what is ever kept, or of another kind.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        # Every change puts a new file in the place of the old one.
        state = (found.st_ino, found.st_mtime_ns)
        if state == self._seen:
            return None
        try:
            content = kind.validate_json(read_at_most(self._path, MOST_BYTES))
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.errors()[0]["msg"]
            raise SettingsError(
                f"DATA_DIR: {self._path}: {reason}; move the file away, or restore it."
            ) from error
        self._seen = state
        return content

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep other processes from changing the file inside the context."""
        with locked(self._path.with_suffix(".lock")):
            yield

    def write(self, content: bytes) -> None:
        """Replace the content."""
        write_whole(self._path, content)
