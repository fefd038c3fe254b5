"""Reading the graphs of a folder's bundles before anybody asks for them.

A process that starts imports its modules meanwhile: reading and hashing need no interpreter.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor
    from pathlib import Path

MOST_BYTES: Final = 1 << 28
"""Of all files together that are read ahead: what nobody asks for takes memory for a moment."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file contains.

    Attributes:
        data: its bytes.
        sha256: of them, as hexadecimal digits.
    """

    data: bytes = field(repr=False)
    sha256: str


def read_content(path: Path) -> Content:
    """Read a file and compute its SHA-256."""
    data = path.read_bytes()
    return Content(data, hashlib.sha256(data).hexdigest())


class PreloadedGraphs:
    """Reads the graphs of all bundles of a folder in the background, the largest first.

    Args:
        folder: of the bundles. What cannot be read is left to whoever asks for it.
        threads: that read; they are ended with this.
    """

    def __init__(self, folder: Path, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._reading: dict[Path, Future[Content]] = {}
        total = 0
        # Ordinary files in the folders of bundles, as find_graph looks for them.
        found = {path: path.stat().st_size for path in folder.glob("*/*.onnx") if path.is_file()}
        for path, size in sorted(found.items(), key=lambda each: -each[1]):
            total += size
            if total <= MOST_BYTES:
                self._reading[path] = threads.submit(read_content, path)

    def read(self, path: Path) -> Content:
        """Return a file's content, once; it is read now if nobody has begun."""
        reading = self._reading.pop(path, None)
        if reading is None or reading.cancel():
            return read_content(path)
        return reading.result()

    def close(self) -> None:
        """Forget what nobody has asked for."""
        self._reading.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)
