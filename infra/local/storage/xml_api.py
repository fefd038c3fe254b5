"""The XML API's object path, `/BUCKET/OBJECT`, which signed URLs use.

Reference: https://cloud.google.com/storage/docs/xml-api/reference-methods. Every request but a
CORS preflight must have a valid V4 signature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from infra.local.storage import cors, errors
from infra.local.storage.contents import ExpectedDigests, incoming_content
from infra.local.storage.objects import FIELD_HEADERS, ObjectDraft, latin1, object_fields
from infra.local.storage.requests import (
    Json,
    base_url,
    number_in,
    optional_number,
    path_segment,
    received_body,
)
from infra.local.storage.signed_urls import ReceivedRequest, verify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from datetime import datetime
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from starlette.requests import Request

    from infra.local.storage.objects import Buckets
    from infra.local.storage.signed_urls import HmacKey

_RESPONSE_OVERRIDES = {
    "response-content-disposition": "Content-Disposition",
    "response-content-type": "Content-Type",
}
_HEADER_FIELDS = {header.lower(): field for field, header in FIELD_HEADERS.items()} | {
    "content-type": "contentType",
    "x-goog-custom-time": "customTime",
    "x-goog-storage-class": "storageClass",
}
_METADATA_PREFIX = "x-goog-meta-"
_LENGTH_RANGE = "x-goog-content-length-range"
_GENERATION = "x-goog-if-generation-match"
_REFUSED_HEADERS = (
    *("x-goog-acl", "x-goog-content-sha256", "x-goog-copy-source", "x-goog-encryption-key"),
    "x-goog-if-metageneration-match",
)


@dataclass(frozen=True, slots=True)
class XmlApi:
    buckets: Buckets
    folder: Path
    keys: Mapping[str, RSAPublicKey | HmacKey]
    now: Callable[[], datetime]

    def routes(self) -> list[Route]:
        path = "/{bucket}/{object:path}"
        return [
            Route(path, self.preflight, methods=["OPTIONS"]),
            Route(path, self._signed(self.read), methods=["GET", "HEAD"]),
            Route(path, self._signed(self.write), methods=["PUT"]),
        ]

    def cors_headers(self, request: Request) -> dict[str, str]:
        """Return the CORS headers of an answer or error, where the bucket's rules give some."""
        try:
            rules = self._rules(request)
        except errors.StorageError:
            return {}
        return cors.response_headers(rules, request.method, request.headers)

    async def preflight(self, request: Request) -> Response:
        """Tell a browser what a page may send."""
        return Response(headers=cors.preflight_headers(self._rules(request), request.headers))

    async def read(self, request: Request, _body: AsyncIterator[bytes]) -> Response:
        stored = self.buckets.find(request, optional_number(request.headers, _GENERATION))
        if stored.xml_etag in request.headers.get("if-none-match", "").split(", "):
            raise errors.not_modified()
        query = request.query_params
        overrides = {
            header: query[name] for name, header in _RESPONSE_OVERRIDES.items() if name in query
        }
        if any(not value.isprintable() for value in overrides.values()):
            raise errors.invalid_argument("No header can hold this response override.")
        return stored.answer(request, {name: latin1(text) for name, text in overrides.items()})

    async def write(self, request: Request, body: AsyncIterator[bytes]) -> Response:
        """Receive an object; nothing is stored unless everything arrived and fits."""
        for name in _REFUSED_HEADERS:
            if name in request.headers:
                raise errors.not_offered(f"{name} is not offered.", parameter=name)
        bucket, name = path_segment(request, "bucket"), path_segment(request, "object")
        wanted = optional_number(request.headers, _GENERATION)
        draft = ObjectDraft(bucket, name, fields_of(request), wanted)
        shortest, longest = 0, None
        if _LENGTH_RANGE in request.headers:
            least, _, most = request.headers[_LENGTH_RANGE].strip().partition(",")
            shortest, longest = number_in(least, _LENGTH_RANGE), number_in(most, _LENGTH_RANGE)
        announced = optional_number(request.headers, "content-length")
        check_length(shortest if announced is None else announced, shortest, longest)
        self.buckets.check(draft)
        expected = ExpectedDigests.from_headers(request.headers)
        with incoming_content(self.folder) as incoming:
            async for piece in body:
                incoming.write(piece)
                check_length(incoming.size, 0, longest)
            check_length(incoming.size, shortest, longest)
            content = await incoming.finish()
            expected.check(content)
            stored = self.buckets.write(draft, content, base_url(request))
        return Response(headers=stored.version_headers() | {"ETag": stored.xml_etag})

    def _signed(
        self, handler: Callable[[Request, AsyncIterator[bytes]], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            received = ReceivedRequest(
                method=request.method,
                raw_path=request.scope["path"],
                raw_query=request.scope["query_string"].decode("latin-1"),
                headers=request.headers.items(),
            )
            async with received_body(request) as body:
                verify(received, self.keys, self.now())
                response = await handler(request, body)
            response.headers.update(self.cors_headers(request))
            return response

        return endpoint

    def _rules(self, request: Request) -> list[cors.Rule]:
        bucket = self.buckets.bucket_of(request)
        return list(bucket.fields.get("cors", []))


def fields_of(request: Request) -> Json:
    # Header values are UTF-8 that HTTP read as Latin-1.
    headers = {
        name: value.encode("latin-1").decode(errors="replace")
        for name, value in request.headers.items()
    }
    fields: Json = {
        field: headers[name] for name, field in _HEADER_FIELDS.items() if name in headers
    }
    metadata = {
        name.removeprefix(_METADATA_PREFIX): value
        for name, value in headers.items()
        if name.startswith(_METADATA_PREFIX)
    }
    return object_fields(fields | {"metadata": metadata or None})


def check_length(size: int, shortest: int, longest: int | None) -> None:
    if longest is not None and size > longest:
        raise errors.entity_too_large(f"Content-length is above the upper bound: {longest}")
    if size < shortest:
        raise errors.entity_too_small(f"Content-length is below the lower bound: {shortest}")
