"""A recording that is decoded while it comes, as a file that is read once from its beginning."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Incoming:
    """Reads a recording from a descriptor, waiting for what has not come yet.

    It cannot be sought in, so FFmpeg reads it once, from front to back.

    Args:
        descriptor: of the socket that the recording comes over.
        most_bytes: how much is read at most; the recording ends there.
        before_read: is called before each read, which may wait: what was decoded must be out then.

    Attributes:
        bytes_read: how much was read of it.
    """

    def __init__(
        self, descriptor: int, most_bytes: int, before_read: Callable[[], None] = lambda: None
    ) -> None:
        self._descriptor = descriptor
        self._before_read = before_read
        self.most_bytes = most_bytes
        self.bytes_read = 0

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, as soon as there is one; none at the end."""
        self._before_read()
        piece = os.read(self._descriptor, min(size, self.most_bytes - self.bytes_read))
        self.bytes_read += len(piece)
        return piece
