"""Files that several processes share."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import ValidationError

from shared.runtime.process import lock_file, read_at_most, write_whole
from shared.runtime.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import TypeAdapter


Content = TypeVar("Content")
MOST_BYTES: Final = 64 << 20  # ten thousand of the longest words take less


class LockedJsonFile:
    """A JSON file that is always whole; one process at a time changes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None

    def read_new(self, kind: TypeAdapter[Content]) -> Content | None:
        """Return the content if it has changed since the last call, else None."""
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
    def lock(self) -> Iterator[None]:
        """Keep other processes from changing the file inside the context."""
        with lock_file(self._path.with_suffix(".lock")):
            yield

    def write(self, content: bytes) -> None:
        write_whole(self._path, content)


_PREFIX: Final = "compat-"
_LOCK: Final = "lock"


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder that is removed at the end of this process, but not of a forked one.

    A killed process leaves its folder. The lock on a file in it ends with the last process of the
    run, so the next run can tell which folders nobody uses any more, and removes them.
    """
    import fcntl  # noqa: PLC0415 - Windows does not have it

    remove_unused_folders()
    folder, owner = Path(tempfile.mkdtemp(prefix=_PREFIX)), os.getpid()
    try:
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)


def remove_unused_folders() -> None:
    import fcntl  # noqa: PLC0415 - Windows does not have it

    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            # Not through a link, which somebody else could have laid there.
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # it is in use
        else:
            shutil.rmtree(lock.parent, ignore_errors=True)
        finally:
            os.close(descriptor)
