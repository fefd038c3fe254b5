"""Objects' contents on disk, under opaque ids: a name that a client chose is never part of a path.

A content is complete before anything refers to it. What nothing refers to (an upload that a killed
server left behind) is removed at the next start. Files are handed to the operating system, not
forced to the disk: they survive a killed server, not a power cut.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, BinaryIO

from infra.local.storage.protocol.digests import Digests, Hasher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

_READ_BYTES = 256 * 1024
# Small enough for many uploads at once, large enough that a recording needs one hop to a thread.
_WRITE_BYTES = 1024 * 1024


class ContentWriter:
    """One content being received; `content_id` names it once it is finished."""

    def __init__(self, content_id: str, file: BinaryIO) -> None:
        self.content_id = content_id
        self._file = file
        self._hasher = Hasher()
        self._buffer = bytearray()

    async def write(self, data: bytes) -> None:
        """Append bytes."""
        self._buffer += data
        if len(self._buffer) >= _WRITE_BYTES:
            await self._drain()

    async def finish(self) -> Digests:
        """Hand everything to the operating system and return the checksums."""
        await self._drain()
        self._file.close()
        return self._hasher.digests()

    async def _drain(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        await asyncio.to_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()
        self._hasher.update(data)


class Contents:
    """The folder of contents."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[ContentWriter]:
        """A writer for a new content, which is removed if the block ends with an exception."""
        content_id = uuid.uuid4().hex
        with (self._folder / content_id).open("xb") as file:
            try:
                yield ContentWriter(content_id, file)
            except BaseException:
                self.delete(content_id)
                raise

    def create_empty(self) -> str:
        """A new content of no bytes, to be filled with `append`; returns its id."""
        content_id = uuid.uuid4().hex
        (self._folder / content_id).touch(exist_ok=False)
        return content_id

    async def append(self, content_id: str, data: bytes) -> None:
        """Add bytes at the end of a content that is not finished."""
        await asyncio.to_thread(self._append, content_id, data)

    def _append(self, content_id: str, data: bytes) -> None:
        with (self._folder / content_id).open("ab") as file:
            file.write(data)

    def truncate(self, content_id: str, size: int) -> None:
        """Keep the first `size` bytes of a content that is not finished."""
        os.truncate(self._folder / content_id, size)

    def size(self, content_id: str) -> int:
        """The content's size in bytes."""
        return (self._folder / content_id).stat().st_size

    async def digests(self, content_id: str) -> Digests:
        """The checksums of a content on disk."""
        hasher = Hasher()
        async for data in self.read(content_id):
            await asyncio.to_thread(hasher.update, data)
        return hasher.digests()

    async def read(self, content_id: str) -> AsyncIterator[bytes]:
        """The whole content, in pieces."""
        with self.open(content_id) as file:
            async for data in read_positions(file, range(self.size(content_id))):
                yield data

    def open(self, content_id: str) -> BinaryIO:
        """Open for reading; what is open stays readable after `delete`."""
        return (self._folder / content_id).open("rb")

    def delete(self, content_id: str) -> None:
        """Remove a content, if it is there."""
        (self._folder / content_id).unlink(missing_ok=True)

    def keep_only(self, content_ids: Iterable[str]) -> None:
        """Remove every content that is not among these."""
        kept = set(content_ids)
        for path in self._folder.iterdir():
            if path.name not in kept:
                path.unlink()


async def read_positions(file: BinaryIO, positions: range) -> AsyncIterator[bytes]:
    """The bytes at these positions, in pieces."""
    file.seek(positions.start)
    remaining = len(positions)
    while remaining > 0:
        data = await asyncio.to_thread(file.read, min(remaining, _READ_BYTES))
        if not data:
            return
        remaining -= len(data)
        yield data
