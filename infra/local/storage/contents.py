"""Contents of objects: files under opaque ids, their checksums, and the answers that carry them.

A name that a client chose is never part of a path.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Self

import google_crc32c
from starlette.responses import StreamingResponse

from infra.local.storage import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.datastructures import Headers
    from starlette.types import Receive, Scope, Send

_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class StoredContent:
    """A complete content: size in bytes, CRC32C (big-endian) and MD5 in base64."""

    path: Path
    size: int
    crc32c: str
    md5: str

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class ExpectedDigests:
    """Checksums that the sender gave; a field is None where it gave none."""

    crc32c: str | None = None
    md5: str | None = None

    @classmethod
    def from_headers(cls, headers: Headers) -> Self:
        """Read `x-goog-hash` (`crc32c=...` and `md5=...`, joined by commas) and `Content-MD5`."""
        found = {"md5": headers.get("content-md5")}
        for item in ",".join(headers.getlist("x-goog-hash")).split(","):
            algorithm, _, digest = item.strip().partition("=")
            if algorithm in {"crc32c", "md5"} and digest:
                found[algorithm] = digest
            elif item.strip():
                raise errors.invalid_argument(f"Unknown x-goog-hash: {item.strip()!r}.")
        return cls(**found)

    def check(self, content: StoredContent) -> None:
        pairs = (
            ("CRC32C", self.crc32c, content.crc32c),
            ("MD5 hash", self.md5, content.md5),
        )
        for label, provided, calculated in pairs:
            if provided is not None and provided != calculated:
                raise errors.bad_digest(
                    f'Provided {label} "{provided}" doesn\'t match '
                    f'calculated {label} "{calculated}".'
                )


class IncomingContent:
    def __init__(self, folder: Path) -> None:
        self._path = folder / uuid.uuid4().hex
        self._path.touch(exist_ok=False)
        self.size = 0

    def write(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)
        self.size += len(data)

    def truncate(self, size: int) -> None:
        os.truncate(self._path, size)
        self.size = size

    async def finish(self) -> StoredContent:
        return await asyncio.to_thread(self._measure)

    def _measure(self) -> StoredContent:
        crc32c = google_crc32c.Checksum()  # type: ignore[no-untyped-call] # has no types
        md5 = hashlib.md5(usedforsecurity=False)
        with self._path.open("rb") as file:
            while data := file.read(_READ_BYTES):
                for each in (crc32c, md5):
                    each.update(data)
        return StoredContent(
            path=self._path,
            size=self.size,
            crc32c=base64.b64encode(crc32c.digest()).decode(),  # type: ignore[no-untyped-call]
            md5=base64.b64encode(md5.digest()).decode(),
        )

    def delete(self) -> None:
        self._path.unlink(missing_ok=True)


@contextmanager
def incoming_content(folder: Path) -> Iterator[IncomingContent]:
    incoming = IncomingContent(folder)
    try:
        yield incoming
    except BaseException:
        incoming.delete()
        raise


class ContentResponse(StreamingResponse):
    """Streams positions of an open file and closes it, also where the client goes away."""

    def __init__(
        self, file: BinaryIO, positions: range, status_code: int, headers: dict[str, str]
    ) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            file.seek(positions.start)
            for start in range(0, len(positions), _READ_BYTES):
                size = min(len(positions) - start, _READ_BYTES)
                yield await asyncio.to_thread(file.read, size)

        super().__init__(pieces(), status_code, headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)
