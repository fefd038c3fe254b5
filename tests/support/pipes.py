"""Named pipes, which whoever opens them waits for."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def a_pipe(path: Path) -> Iterator[None]:
    """Make a named pipe; whoever reads it gets two bytes, instead of waiting for ever."""
    os.mkfifo(path)
    writing = threading.Thread(target=path.write_bytes, args=(b"{}",))
    writing.start()
    try:
        yield
    finally:
        # Nobody has read it: so that the writer ends.
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        writing.join(10)
        os.close(reader)
