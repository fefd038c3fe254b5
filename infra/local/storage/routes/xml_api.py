"""The XML API's object path, `/BUCKET/OBJECT`, which signed URLs use.

Reference: https://cloud.google.com/storage/docs/xml-api/reference-methods. Every request but a
CORS preflight must carry a valid V4 signature.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from infra.local.storage.protocol import cors
from infra.local.storage.protocol.bodies import Body, received_body
from infra.local.storage.protocol.digests import ExpectedDigests
from infra.local.storage.protocol.errors import (
    BucketNotFoundError,
    EntityTooLargeError,
    EntityTooSmallError,
    InvalidArgumentError,
    NotModifiedError,
    NotOfferedError,
)
from infra.local.storage.protocol.names import decoded
from infra.local.storage.protocol.preconditions import Preconditions, parsed_number
from infra.local.storage.protocol.resources import Json, object_fields
from infra.local.storage.protocol.signatures import UNSIGNED_PAYLOAD, ReceivedRequest, verify
from infra.local.storage.routes.downloads import content_response, version_headers
from infra.local.storage.routes.requests import base_url
from infra.local.storage.state.objects import Content, Draft

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from starlette.requests import Request

    from infra.local.storage.protocol.resources import StoredObject
    from infra.local.storage.protocol.signatures import HmacKey
    from infra.local.storage.state.buckets import Buckets
    from infra.local.storage.state.contents import Contents
    from infra.local.storage.state.objects import Objects

_LENGTH_RANGE = re.compile(r"(\d{1,18}),(\d{1,18})")
_RESPONSE_OVERRIDES = {
    "response-content-disposition": "Content-Disposition",
    "response-content-type": "Content-Type",
}
_FIELD_HEADERS = {
    "cache-control": "cacheControl",
    "content-disposition": "contentDisposition",
    "content-encoding": "contentEncoding",
    "content-language": "contentLanguage",
    "content-type": "contentType",
    "x-goog-custom-time": "customTime",
    "x-goog-storage-class": "storageClass",
}
_METADATA_PREFIX = "x-goog-meta-"
_REFUSED_HEADERS = ("x-goog-acl", "x-goog-copy-source", "x-goog-encryption-key")


class XmlApi:
    """Endpoints for one object."""

    def __init__(
        self,
        buckets: Buckets,
        objects: Objects,
        contents: Contents,
        keys: Mapping[str, RSAPublicKey | HmacKey],
        now: Callable[[], datetime],
    ) -> None:
        self._buckets = buckets
        self._objects = objects
        self._contents = contents
        self._keys = keys
        self._now = now

    def routes(self) -> list[Route]:
        """The endpoints, below `/`."""
        path = "/{bucket}/{object:path}"
        return [
            Route(path, self.preflight, methods=["OPTIONS"]),
            Route(path, self._signed(self.read), methods=["GET", "HEAD"]),
            Route(path, self._signed(self.write), methods=["PUT"]),
            Route(path, self._signed(self.delete), methods=["DELETE"]),
        ]

    def cors_headers(self, request: Request) -> dict[str, str]:
        """The CORS headers of an answer, also of an error, where the bucket's rules give some."""
        try:
            rules = self._rules(request)
        except (BucketNotFoundError, InvalidArgumentError):
            return {}
        return cors.response_headers(rules, request.method, request.headers)

    async def preflight(self, request: Request) -> Response:
        """Tell a browser what a page may send."""
        return Response(headers=cors.preflight_headers(self._rules(request), request.headers))

    async def read(self, request: Request, _body: Body) -> Response:
        """Answer an object's content (GET), or only its headers (HEAD)."""
        stored = self._objects.get(
            *_address(request),
            parsed_number(request.query_params.get("generation"), "generation"),
            Preconditions.from_headers(request.headers),
        )
        if stored.xml_etag in request.headers.get("if-none-match", "").split(", "):
            raise NotModifiedError
        return content_response(request, self._contents, stored, _overrides(request))

    async def write(self, request: Request, body: Body) -> Response:
        """Receive an object; nothing is stored unless everything arrived and fits."""
        for name in _REFUSED_HEADERS:
            if name in request.headers:
                raise NotOfferedError(f"The local cloud does not offer {name}.", parameter=name)
        bucket, name = _address(request)
        draft = Draft(bucket, name, _fields(request), Preconditions.from_headers(request.headers))
        stored = await self._received(request, draft, body)
        headers = version_headers(stored) | {"ETag": stored.xml_etag}
        return Response(headers=headers)

    async def delete(self, request: Request, _body: Body) -> Response:
        """Remove an object."""
        self._objects.delete(
            *_address(request),
            parsed_number(request.query_params.get("generation"), "generation"),
            Preconditions.from_headers(request.headers),
            base_url(request),
        )
        return Response(status_code=204)

    async def _received(self, request: Request, draft: Draft, body: Body) -> StoredObject:
        allowed = _allowed_length(request)
        if body.announced is not None:
            _check_length(body.announced, allowed, complete=True)
        self._objects.check(draft)
        expected = _expected_digests(request)
        async with self._contents.writing() as writer:
            size = 0
            async for piece in body:
                size += len(piece)
                _check_length(size, allowed, complete=False)
                await writer.write(piece)
            _check_length(size, allowed, complete=True)
            digests = await writer.finish()
            expected.check(digests)
            content = Content.uploaded(writer.content_id, digests)
            return self._objects.commit(draft, content, base_url(request))

    def _signed(
        self, handler: Callable[[Request, Body], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            async with received_body(request) as body:
                self._verify(request)
                response = await handler(request, body)
            response.headers.update(self.cors_headers(request))
            return response

        return endpoint

    def _verify(self, request: Request) -> None:
        received = ReceivedRequest(
            method=request.method,
            raw_path=request.scope["path"],
            raw_query=request.scope["query_string"].decode("latin-1"),
            headers=request.headers.items(),
        )
        verify(received, self._keys, self._now())

    def _rules(self, request: Request) -> list[cors.Rule]:
        bucket, _ = _address(request)
        rules: list[cors.Rule] = self._buckets.get(bucket).fields.get("cors", [])
        return rules


def _address(request: Request) -> tuple[str, str]:
    return decoded(request.path_params["bucket"]), decoded(request.path_params["object"])


def _overrides(request: Request) -> dict[str, str]:
    query = request.query_params
    headers = {header: query[name] for name, header in _RESPONSE_OVERRIDES.items() if name in query}
    if any(not value.isprintable() for value in headers.values()):
        raise InvalidArgumentError("A response override has characters that no header can hold.")
    return {header: value.encode().decode("latin-1") for header, value in headers.items()}


def _fields(request: Request) -> Json:
    resource: Json = {
        field: _text(request.headers[header])
        for header, field in _FIELD_HEADERS.items()
        if header in request.headers
    }
    metadata = {
        name.removeprefix(_METADATA_PREFIX): _text(value)
        for name, value in request.headers.items()
        if name.startswith(_METADATA_PREFIX)
    }
    return object_fields(resource | ({"metadata": metadata} if metadata else {}))


def _text(header_value: str) -> str:
    """Header values are UTF-8 that HTTP read as Latin-1."""
    return header_value.encode("latin-1").decode(errors="replace")


def _allowed_length(request: Request) -> tuple[int, int] | None:
    header = request.headers.get("x-goog-content-length-range")
    if header is None:
        return None
    match = _LENGTH_RANGE.fullmatch(header.strip())
    if match is None:
        raise InvalidArgumentError(
            f"x-goog-content-length-range must be MIN,MAX in bytes, not {header!r}.",
            parameter="x-goog-content-length-range",
        )
    return int(match[1]), int(match[2])


def _check_length(size: int, allowed: tuple[int, int] | None, *, complete: bool) -> None:
    if allowed is None:
        return
    if size > allowed[1]:
        raise EntityTooLargeError(f"Content-length exceeds upper bound on range: {allowed[1]}")
    if complete and size < allowed[0]:
        raise EntityTooSmallError(f"Content-length smaller than lower bound on range: {allowed[0]}")


def _expected_digests(request: Request) -> ExpectedDigests:
    sha256 = request.headers.get("x-goog-content-sha256", UNSIGNED_PAYLOAD)
    return ExpectedDigests.from_hash_headers(
        request.headers.getlist("x-goog-hash"),
        md5=request.headers.get("content-md5"),
        sha256=None if sha256 == UNSIGNED_PAYLOAD else sha256.lower(),
    )
