"""A recording that is decoded while it comes, as a file that is read once from its beginning."""

from __future__ import annotations

import os


class Incoming:
    """Reads a recording from a descriptor, waiting for what has not come yet.

    It cannot be sought in, so FFmpeg reads it once, from front to back.

    Args:
        descriptor: of the socket that the recording comes over.
        most_bytes: how much is read at most; the recording ends there.
    """

    def __init__(self, descriptor: int, most_bytes: int) -> None:
        self._descriptor = descriptor
        self._left = most_bytes
        self.most_bytes = most_bytes

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, as soon as there is one; none at the end."""
        piece = os.read(self._descriptor, min(size, self._left))
        self._left -= len(piece)
        return piece
