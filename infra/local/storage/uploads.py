"""Uploads of the JSON API: multipart and resumable (`/upload/storage/v1`).

Protocol: https://cloud.google.com/storage/docs/performing-resumable-uploads. Of a piece that is
not the last one, whole multiples of 256 KiB are kept, as in Cloud Storage.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from python_multipart.multipart import parse_options_header
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from infra.local.storage import errors
from infra.local.storage.contents import ExpectedDigests, IncomingContent, incoming_content
from infra.local.storage.objects import ObjectDraft, StoredObject, object_fields
from infra.local.storage.requests import (
    ContentRange,
    Json,
    base_url,
    json_body,
    optional_number,
    parsed_json,
    path_segment,
    received_body,
    wanted_generation,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

    from infra.local.storage.objects import Buckets

QUANTUM = 256 * 1024
_PATIENCE_S = 5.0
_PARTS = 2
# The client library sends larger objects as resumable uploads.
_MOST_MULTIPART_BYTES = 32 * 1024 * 1024


def split_related(content_type: str, body: bytes) -> tuple[Json, bytes]:
    """Return the object resource and the content of a multipart upload (RFC 2387).

    The resource has the content part's type where it names none.
    """
    media_type, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not media_type.startswith(b"multipart/") or not boundary:
        raise errors.invalid_argument(f"{content_type!r} is no multipart type with a boundary.")
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if len(parts) != _PARTS + 1 or not parts[-1].startswith(b"--"):
        raise errors.invalid_argument("The multipart body must have two complete parts.")
    (_, _, metadata), (head, _, content) = (part.partition(b"\r\n\r\n") for part in parts[:_PARTS])
    resource = parsed_json(metadata)
    for line in head.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-type":
            resource = {"contentType": value.strip()} | resource
    return resource, content


@dataclass(slots=True)
class UploadSession:
    """A resumable upload; `result` is the object once it is complete."""

    draft: ObjectDraft
    expected: ExpectedDigests
    total: int | None
    content: IncomingContent
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    result: StoredObject | None = None

    async def take(self, positions: range, body: AsyncIterator[bytes], total: int | None) -> None:
        """Append the bytes at these positions that are not there yet."""
        persisted, received, is_last = self.content.size, 0, False
        if positions.start > persisted:
            raise errors.busy(f"The next bytes begin at {persisted}, not {positions.start}.")
        present = persisted - positions.start
        try:
            async for piece in body:
                if received + len(piece) > len(positions):
                    raise errors.invalid_argument("More bytes than the Content-Range says.")
                self.content.write(piece[max(0, present - received) :])
                received += len(piece)
            if received != len(positions):
                raise errors.incomplete_body(f"{received} of {len(positions)} bytes arrived.")
            is_last = positions.stop == total
        finally:
            if not is_last:
                whole_quanta = self.content.size - self.content.size % QUANTUM
                self.content.truncate(max(persisted, whole_quanta))


class UploadApi:
    def __init__(self, buckets: Buckets, folder: Path) -> None:
        self._buckets = buckets
        self._folder = folder
        self._sessions: dict[str, UploadSession] = {}

    def routes(self) -> list[Route]:
        return [
            Route("/b/{bucket}/o", self.start, methods=["POST"]),
            Route("/b/{bucket}/o", self.resume, methods=["PUT"]),
        ]

    async def start(self, request: Request) -> Response:
        upload_type = request.query_params.get("uploadType")
        if upload_type == "resumable":
            return await self._open_session(request)
        async with received_body(request) as body:
            if upload_type != "multipart":
                raise errors.not_offered(
                    f"uploadType must be multipart or resumable, not {upload_type!r}."
                )
            content_type = request.headers.get("content-type", "")
            resource, data = split_related(content_type, await whole(body))
            with incoming_content(self._folder) as incoming:
                incoming.write(data)
                draft, content = draft_of(request, resource), await incoming.finish()
                ExpectedDigests.from_headers(request.headers).check(content)
                digests_of(resource).check(content)
                stored = self._buckets.write(draft, content, base_url(request))
        return JSONResponse(stored.resource(base_url(request)))

    async def resume(self, request: Request) -> Response:
        """Receive the next bytes of a session, or tell how far it is."""
        async with received_body(request) as body, self._session(request) as session:
            content_range = announced_range(request)
            if session.result is None:
                await self._advance(request, session, content_range, body)
        if session.result is not None:
            return JSONResponse(session.result.resource(base_url(request)))
        size = session.content.size
        return Response(status_code=308, headers={"Range": f"bytes=0-{size - 1}"} if size else {})

    async def _open_session(self, request: Request) -> Response:
        resource = await json_body(request)
        content_type = request.headers.get("x-upload-content-type")
        if content_type:
            resource.setdefault("contentType", content_type)
        draft = draft_of(request, resource)
        self._buckets.check(draft)
        total = optional_number(request.headers, "x-upload-content-length")
        session_id = secrets.token_urlsafe(32)
        self._sessions[session_id] = UploadSession(
            draft, digests_of(resource), total, IncomingContent(self._folder)
        )
        location = f"{base_url(request)}{request.scope['path']}?uploadType=resumable"
        headers = {"Location": f"{location}&upload_id={session_id}"}
        return Response(headers=headers | {"X-GUploader-UploadID": session_id})

    @asynccontextmanager
    async def _session(self, request: Request) -> AsyncIterator[UploadSession]:
        """Yield a session for one request at a time; the next waits for an interrupted one."""
        session_id = request.query_params.get("upload_id", "")
        session = self._sessions.get(session_id)
        if session is None or session.draft.bucket != path_segment(request, "bucket"):
            raise errors.not_found("There is no such upload session.")
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await session.lock.acquire()
        except TimeoutError:
            raise errors.busy("Another request is writing to this upload session.") from None
        try:
            if session_id not in self._sessions:
                raise errors.not_found("The upload session has ended.")
            yield session
        finally:
            session.lock.release()

    async def _advance(
        self,
        request: Request,
        session: UploadSession,
        content_range: ContentRange,
        body: AsyncIterator[bytes],
    ) -> None:
        positions, totals = content_range.positions, {session.total, content_range.total} - {None}
        if len(totals) > 1:
            raise errors.invalid_argument(f"{session.total} bytes were announced.")
        total = next(iter(totals), None)
        if positions is not None:
            await session.take(positions, body, total)
        claimed = content_range.total if positions is None else total
        persisted = session.content.size
        if claimed is None or persisted < claimed:
            return
        if persisted != total:
            raise errors.invalid_argument(f"{persisted} bytes are here, more than {total}.")
        content = await session.content.finish()
        try:
            session.expected.check(content)
            ExpectedDigests.from_headers(request.headers).check(content)
            session.result = self._buckets.write(session.draft, content, base_url(request))
        except errors.StorageError:
            del self._sessions[request.query_params["upload_id"]]
            session.content.delete()
            raise


async def whole(body: AsyncIterator[bytes]) -> bytes:
    data = bytearray()
    async for piece in body:
        data += piece
        if len(data) > _MOST_MULTIPART_BYTES:
            raise errors.entity_too_large("Use a resumable upload for a larger object.")
    return bytes(data)


def draft_of(request: Request, resource: Json) -> ObjectDraft:
    name = request.query_params.get("name") or resource.get("name")
    return ObjectDraft(
        bucket=path_segment(request, "bucket"),
        name=name if isinstance(name, str) else "",
        fields=object_fields(resource),
        wanted_generation=wanted_generation(request.query_params),
    )


def announced_range(request: Request) -> ContentRange:
    header = request.headers.get("content-range")
    if header is not None:
        return ContentRange.parse(header)
    length = optional_number(request.headers, "content-length")
    if length is None:
        raise errors.invalid_argument("Send a Content-Range or a Content-Length.")
    return ContentRange(range(length), length)


def digests_of(resource: Json) -> ExpectedDigests:
    values = (resource.get("crc32c"), resource.get("md5Hash"))
    return ExpectedDigests(*(value if isinstance(value, str) else None for value in values))
