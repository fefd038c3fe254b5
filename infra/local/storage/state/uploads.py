"""Resumable uploads: sessions that outlive connections, and the server.

Protocol: https://cloud.google.com/storage/docs/performing-resumable-uploads. Of a piece that is
not the last one, whole multiples of 256 KiB are kept, as in Cloud Storage.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

from starlette.requests import ClientDisconnect

from infra.local.storage.protocol.digests import ExpectedDigests
from infra.local.storage.protocol.errors import (
    BusyError,
    IncompleteBodyError,
    InvalidArgumentError,
    NotFoundError,
    StorageError,
)
from infra.local.storage.protocol.preconditions import Preconditions
from infra.local.storage.protocol.resources import Json, StoredObject, microseconds
from infra.local.storage.state.catalogue import UploadSession
from infra.local.storage.state.objects import Content, Draft

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from infra.local.storage.protocol.bodies import Body
    from infra.local.storage.state.catalogue import Catalogue
    from infra.local.storage.state.contents import Contents
    from infra.local.storage.state.objects import Objects

QUANTUM = 256 * 1024
LIFETIME = timedelta(days=7)
_PIECE = 1024 * 1024
_PATIENCE_S = 5.0
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")


@dataclass(frozen=True, slots=True)
class ContentRange:
    """Which bytes a request brings: `positions` is None for a query; `total` where it is known."""

    positions: range | None
    total: int | None

    @classmethod
    def parse(cls, header: str) -> Self:
        """Read a Content-Range header.

        Raises:
            InvalidArgumentError: it is malformed or contradicts itself.
        """
        match = _CONTENT_RANGE.fullmatch(header.strip())
        if match is None:
            raise InvalidArgumentError(f"Malformed Content-Range: {header!r}.")
        first, last, size = match.groups()
        total = None if size == "*" else int(size)
        positions = None if first is None else range(int(first), int(last) + 1)
        if positions is not None and (
            not positions or (total is not None and positions.stop > total)
        ):
            raise InvalidArgumentError(f"Contradictory Content-Range: {header!r}.")
        return cls(positions, total)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a session is: bytes kept, and the object's resource once it is complete."""

    persisted: int
    resource: Json | None = None


class Uploads:
    """The upload sessions of all buckets."""

    def __init__(
        self,
        catalogue: Catalogue,
        contents: Contents,
        objects: Objects,
        now: Callable[[], datetime],
    ) -> None:
        self._catalogue = catalogue
        self._contents = contents
        self._objects = objects
        self._now = now
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def open(self, draft: Draft, expected: ExpectedDigests, total: int | None) -> str:
        """Start a session and return its id, which is a secret.

        Raises:
            as `Objects.check`.
        """
        self._objects.check(draft)
        plan = {"draft": asdict(draft), "expected": asdict(expected), "total": total}
        session = UploadSession(
            session_id=secrets.token_urlsafe(32),
            bucket=draft.bucket,
            content_id=self._contents.create_empty(),
            created=microseconds(self._now()),
            plan=plan,
            result=None,
        )
        self._catalogue.put_session(session)
        return session.session_id

    async def progress(self, bucket: str, session_id: str) -> Progress:
        """How far a session is.

        Raises:
            NotFoundError: there is no such session, or no longer.
            BusyError: another request brings bytes and does not end.
        """
        async with self._alone(session_id):
            return self._progress(self._find(bucket, session_id))

    async def cancel(self, bucket: str, session_id: str) -> None:
        """End a session and forget what was received.

        Raises:
            NotFoundError: there is no such session, or no longer.
            BusyError: another request brings bytes and does not end.
        """
        async with self._alone(session_id):
            self._discard(self._find(bucket, session_id))

    async def receive(
        self,
        bucket: str,
        session_id: str,
        *,
        content_range: ContentRange,
        body: Body,
        expected: ExpectedDigests,
        base_url: str,
    ) -> Progress:
        """Take the next bytes, and complete the object if they are the last.

        Raises:
            NotFoundError: there is no such session, or no longer.
            BusyError: the bytes do not join what is there, or another request brings some and
                does not end.
            InvalidArgumentError: the request contradicts itself or the session.
            BadDigestError: the content does not have the announced checksum; the session is over.
            PreconditionFailedError: somebody was faster; the session is over.
        """
        async with self._alone(session_id):
            session = self._find(bucket, session_id)
            if session.result is not None:
                return self._progress(session)
            total = _agreed_total(session, content_range)
            await self._take(session, content_range, body, total)
            return await self._advance(session, content_range, total, expected, base_url)

    @asynccontextmanager
    async def _alone(self, session_id: str) -> AsyncIterator[None]:
        """One request at a time; the next one waits for an interrupted one to be tidied up."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await lock.acquire()
        except TimeoutError:
            raise BusyError("Another request is writing to this upload session.") from None
        try:
            yield
        finally:
            lock.release()

    async def _take(
        self, session: UploadSession, content_range: ContentRange, body: Body, total: int | None
    ) -> None:
        if content_range.positions is None:
            return
        persisted = self._contents.size(session.content_id)
        if content_range.positions.start > persisted:
            raise BusyError(
                f"{persisted} bytes are here; the next may not begin at "
                f"{content_range.positions.start}."
            )
        try:
            await self._append(session.content_id, content_range.positions, body)
        except (ClientDisconnect, IncompleteBodyError):
            self._round_down(session.content_id, persisted)
            raise
        except StorageError:
            self._contents.truncate(session.content_id, persisted)
            raise
        if content_range.positions.stop != total:
            self._round_down(session.content_id, persisted)

    async def _append(self, content_id: str, positions: range, body: Body) -> None:
        """Write the bytes at `positions` that are not there yet."""
        present = self._contents.size(content_id) - positions.start
        received = 0
        buffer = bytearray()
        try:
            async for piece in body:
                if received + len(piece) > len(positions):
                    raise InvalidArgumentError("More bytes arrived than the Content-Range says.")
                buffer += piece[max(0, present - received) :]
                received += len(piece)
                if len(buffer) >= _PIECE:
                    await self._contents.append(content_id, bytes(buffer))
                    buffer.clear()
        finally:
            await self._contents.append(content_id, bytes(buffer))
        if received != len(positions):
            raise IncompleteBodyError(f"{received} of {len(positions)} bytes arrived.")

    def _round_down(self, content_id: str, at_least: int) -> None:
        size = self._contents.size(content_id)
        self._contents.truncate(content_id, max(at_least, size - size % QUANTUM))

    async def _advance(
        self,
        session: UploadSession,
        content_range: ContentRange,
        total: int | None,
        expected: ExpectedDigests,
        base_url: str,
    ) -> Progress:
        persisted = self._contents.size(session.content_id)
        claimed = content_range.total if content_range.positions is None else total
        if claimed is None or persisted < claimed:
            return Progress(persisted)
        if persisted != total:
            raise InvalidArgumentError(f"{persisted} bytes are here, more than {total}.")
        return await self._complete(session, expected, base_url)

    async def _complete(
        self, session: UploadSession, expected: ExpectedDigests, base_url: str
    ) -> Progress:
        digests = await self._contents.digests(session.content_id)
        results: list[Json] = []

        def remember(stored: StoredObject) -> None:
            results.append(stored.resource(base_url))
            self._catalogue.put_session(session._replace(result=results[0]))

        try:
            ExpectedDigests(**session.plan["expected"]).merged(expected).check(digests)
            content = Content.uploaded(session.content_id, digests)
            self._objects.commit(_draft(session), content, base_url, also=remember)
        except StorageError:
            self._discard(session)
            raise
        return Progress(digests.size, results[0])

    def _find(self, bucket: str, session_id: str) -> UploadSession:
        session = self._catalogue.find_session(session_id)
        oldest = microseconds(self._now() - LIFETIME)
        if session is None or session.bucket != bucket or session.created < oldest:
            raise NotFoundError("There is no such upload session, or it has ended.")
        return session

    def _progress(self, session: UploadSession) -> Progress:
        if session.result is not None:
            return Progress(int(session.result["size"]), session.result)
        return Progress(self._contents.size(session.content_id))

    def _discard(self, session: UploadSession) -> None:
        self._catalogue.delete_session(session.session_id)
        if session.result is None:
            self._contents.delete(session.content_id)


def _agreed_total(session: UploadSession, content_range: ContentRange) -> int | None:
    announced: int | None = session.plan["total"]
    if None not in {announced, content_range.total} and announced != content_range.total:
        raise InvalidArgumentError(
            f"The upload was announced with {announced} bytes, not {content_range.total}."
        )
    return content_range.total if announced is None else announced


def _draft(session: UploadSession) -> Draft:
    draft = session.plan["draft"]
    return Draft(
        bucket=draft["bucket"],
        name=draft["name"],
        fields=draft["fields"],
        conditions=Preconditions(**draft["conditions"]),
    )
