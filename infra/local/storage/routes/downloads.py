"""Answers that carry an object's content, whole or a range of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from starlette.responses import Response, StreamingResponse

from infra.local.storage.protocol.ranges import requested_range
from infra.local.storage.protocol.resources import moment_of
from infra.local.storage.state.contents import Contents, read_positions

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from infra.local.storage.protocol.resources import StoredObject

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FIELD_HEADERS = {
    "cacheControl": "Cache-Control",
    "contentDisposition": "Content-Disposition",
    "contentEncoding": "Content-Encoding",
    "contentLanguage": "Content-Language",
}


class _ContentResponse(StreamingResponse):
    """Streams positions of an open file and closes it, also where the client goes away."""

    def __init__(
        self, file: BinaryIO, positions: range, status_code: int, headers: dict[str, str]
    ) -> None:
        super().__init__(read_positions(file, positions), status_code, headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


def content_response(
    request: Request, contents: Contents, stored: StoredObject, headers: dict[str, str]
) -> Response:
    """Answer GET with the content and HEAD without it; `headers` override the object's own.

    An object that was stored with a Content-Encoding is answered with it, not decoded.

    Raises:
        RangeNotSatisfiableError: the Range header asks for bytes behind the end.
    """
    positions = requested_range(request.headers.get("range"), stored.size)
    partial = positions is not None
    if positions is None:
        positions = range(stored.size)
    headers = object_headers(stored) | {"Content-Length": str(len(positions))} | headers
    if partial:
        headers["Content-Range"] = f"bytes {positions.start}-{positions.stop - 1}/{stored.size}"
    status = 206 if partial else 200
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    # Opened before the first byte is sent: the generation that was asked for stays readable.
    return _ContentResponse(contents.open(stored.content_id), positions, status, headers)


def object_headers(stored: StoredObject) -> dict[str, str]:
    """The headers that describe an object with its content."""
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=0",
        "Content-Type": stored.content_type,
        "ETag": stored.xml_etag,
        "Last-Modified": moment_of(stored.updated).strftime("%a, %d %b %Y %H:%M:%S GMT"),
    } | version_headers(stored)
    for field, header in _FIELD_HEADERS.items():
        if field in stored.fields:
            headers[header] = _latin1(stored.fields[field])
    # A key that is no header name is told by the resource only.
    for key, value in stored.fields.get("metadata", {}).items():
        if _HEADER_NAME.fullmatch(key):
            headers[f"x-goog-meta-{key}"] = _latin1(value)
    return headers


def version_headers(stored: StoredObject) -> dict[str, str]:
    """The headers that say which version of an object it is, and its checksums."""
    hashes = f"crc32c={stored.crc32c}" + (f",md5={stored.md5}" if stored.md5 else "")
    return {
        "x-goog-generation": str(stored.generation),
        "x-goog-metageneration": str(stored.metageneration),
        "x-goog-hash": hashes,
        "x-goog-storage-class": str(stored.fields.get("storageClass", "STANDARD")),
        "x-goog-stored-content-encoding": str(stored.fields.get("contentEncoding", "identity")),
        "x-goog-stored-content-length": str(stored.size),
    }


def _latin1(text: str) -> str:
    """Header values travel as bytes: UTF-8, which HTTP reads as Latin-1."""
    return text.encode().decode("latin-1")
