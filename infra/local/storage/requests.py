"""Reads requests: numbers, conditions, names and bodies, for both APIs."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from starlette.requests import ClientDisconnect

from infra.local.storage import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

Json = dict[str, Any]

_MOST_RESOURCE_BYTES = 1024 * 1024
_MOST_DRAINED_BYTES = 64 * 1024 * 1024
_MOST_DIGITS = 19
_MOST_NAME_BYTES = 1024
_DISALLOWED = re.compile(r"[\r\n\ud800-\udfff]|^\.well-known/acme-challenge/")
_REFUSED_CONDITIONS = (
    "ifGenerationNotMatch",
    "ifMetagenerationMatch",
    "ifMetagenerationNotMatch",
)
_RANGE = re.compile(r"bytes=([0-9]*)-([0-9]*)")
_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]+)-([0-9]+)|\*)/([0-9]+|\*)")


def number_in(text: str, name: str) -> int:
    """Read a non-negative 64-bit number; every number of a request is read here."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if not is_number or int(text) >= 2**63:
        message = f"{name} must be a number below 2**63, not {text[:40]!r}."
        raise errors.invalid_argument(message, parameter=name)
    return int(text)


def optional_number(values: Mapping[str, str], name: str) -> int | None:
    """Read a number of a query or of headers; None where it is absent or empty."""
    text = values.get(name)
    return number_in(text, name) if text else None


def requested_range(header: str | None, size: int) -> range | None:
    """Return the byte positions that a Range header asks for, None for the whole content.

    Like Cloud Storage, ignore a header that is malformed or asks for several ranges (RFC 9110,
    section 14). A range without a byte of a content of `size` bytes is an error.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = (number_in(text, "Range") if text else None for text in match.groups())
    if first is None:
        positions = range(max(0, size - (last or 0)), size)
    elif last is None:
        positions = range(first, size)
    elif last < first:
        return None
    else:
        positions = range(first, min(size, last + 1))
    if not positions:
        raise errors.range_not_satisfiable(
            f"{header} of {size} bytes", headers={"Content-Range": f"bytes */{size}"}
        )
    return positions


@dataclass(frozen=True, slots=True)
class ContentRange:
    """The bytes that a request brings: `positions` is None for a query, `total` if unknown."""

    positions: range | None
    total: int | None

    @classmethod
    def parse(cls, header: str) -> Self:
        match = _CONTENT_RANGE.fullmatch(header.strip())
        if match is None:
            raise errors.invalid_argument(f"Malformed Content-Range: {header[:80]!r}.")
        first, last, total = (
            None if text in {None, "*"} else number_in(text, "Content-Range")
            for text in match.groups()
        )
        if first is None or last is None:
            return cls(None, total)
        # `len` of a range fails beyond 2**63 - 1.
        positions = range(first, min(last + 1, 2**63 - 1))
        if not positions or (total is not None and positions.stop > total):
            raise errors.invalid_argument(f"Contradictory Content-Range: {header!r}.")
        return cls(positions, total)


def wanted_generation(query: Mapping[str, str]) -> int | None:
    """Return the generation that an object must have; 0 stands for "there is none"."""
    for name in _REFUSED_CONDITIONS:
        if name in query:
            raise errors.not_offered(f"The local cloud does not offer {name}.", parameter=name)
    return optional_number(query, "ifGenerationMatch")


def check_generation(wanted: int | None, actual: int) -> None:
    """See https://cloud.google.com/storage/docs/request-preconditions."""
    if wanted not in {None, actual}:
        raise errors.precondition_failed(
            f"The generation is {actual}, not {wanted}.", parameter="generation"
        )


def checked_object_name(name: object) -> str:
    """Return a name that https://cloud.google.com/storage/docs/objects#naming allows."""
    if not isinstance(name, str) or not name:
        raise errors.invalid_argument("The object has no name.")
    size = len(name.encode(errors="surrogatepass"))
    if size > _MOST_NAME_BYTES:
        raise errors.invalid_argument(
            f"The object name has {size} bytes of UTF-8; {_MOST_NAME_BYTES} are allowed."
        )
    if name in {".", ".."} or _DISALLOWED.search(name):
        raise errors.invalid_argument(f"Disallowed object name: {name!r}.")
    return name


def base_url(request: Request) -> str:
    """Return scheme, host and port by which the client reached this server."""
    return f"{request.url.scheme}://{request.headers['host']}"


def path_segment(request: Request, name: str) -> str:
    segment: str = request.path_params[name]
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise errors.invalid_argument(f"The path segment {segment!r} is not UTF-8.") from error


def check_framing(headers: Mapping[str, str]) -> None:
    """Refuse a request that gives its length in two ways: servers disagree where it ends."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise errors.invalid_argument(
            "Send a Content-Length or a Transfer-Encoding, not both.",
            headers={"Connection": "close"},
        )


@asynccontextmanager
async def received_body(request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the pieces of a request's body, and read it to its end where the block refuses it.

    A client that still sends would miss the answer.
    """
    pieces, drained = request.stream(), 0
    try:
        yield pieces
    except errors.StorageError:
        # A client that waits for "100 Continue" gets the answer instead of being asked to send.
        with suppress(ClientDisconnect):
            while "expect" not in request.headers and drained < _MOST_DRAINED_BYTES:
                drained += len(await anext(pieces, b"")) or _MOST_DRAINED_BYTES
        raise


async def json_body(request: Request) -> Json:
    """Return a request's body as a JSON object, empty where there is none."""
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > _MOST_RESOURCE_BYTES:
            raise errors.invalid_argument("The object resource is too large.")
    return parsed_json(bytes(content))


def parsed_json(data: bytes) -> Json:
    """Return a JSON object; no data stands for an empty one."""
    try:
        value = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise errors.invalid_argument(f"The body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise errors.invalid_argument("The body must be a JSON object.")
    return value
