"""Signals, locks, files and printed text of a process."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def on_signal(number: int, act: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, act)
    except NotImplementedError:
        # Windows: a handler interrupts the main thread, and the loop is told from there.
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Keep other processes out of the context, by a lock that ends with its process.

    A system without such locks (Windows) runs a service as one process, and nothing is locked.
    """
    try:
        import fcntl  # noqa: PLC0415 - see above
    except ImportError:
        yield
        return
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_at_most(path: Path, most: int) -> bytes:
    """Read a file of at most `most` bytes; `OSError` if it is larger, a pipe or a device."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "expected a file, found something else", str(path))
    with path.open("rb") as file:
        # First its size, which costs no memory: a file may say that it has terabytes.
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
    if max(size, len(content)) > most:
        raise OSError(errno.EFBIG, f"expected at most {most} bytes, found more", str(path))
    return content


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, then move it there at once."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes it readable for its owner alone, but the services run as others.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


_SPACES: Final = frozenset(" \n\u3000")


def plain_text(text: str) -> str:
    """Return a text without characters that steer a terminal or turn the text's direction."""
    return "".join(each if each.isprintable() or each in _SPACES else "\ufffd" for each in text)
