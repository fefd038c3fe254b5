"""Locks that processes of one machine share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of the context; the system ends the lock of a process that ends.

    Where the system has no such locks (Windows), a service is one process, and nobody is kept out.

    Args:
        path: of the lock; the file is made, and stays.
    """
    try:
        import fcntl  # noqa: PLC0415 - see above
    except ImportError:
        yield
        return
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
