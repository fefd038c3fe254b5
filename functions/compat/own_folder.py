"""The folder that the processes of one run share, and those that killed runs have left."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX: Final = "compat-"
_LOCK: Final = "lock"


@contextmanager
def own_folder() -> Iterator[Path]:
    """Make a folder that is removed at the end of this process, but not of a forked one.

    A process that is killed leaves its folder. The lock on a file in it ends with the last process
    of the run, so the next run knows which folders nobody uses any more, and removes them.
    """
    _remove_left()
    folder, owner = Path(tempfile.mkdtemp(prefix=_PREFIX)), os.getpid()
    try:
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_left() -> None:
    """Remove what killed runs of this user have left."""
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
