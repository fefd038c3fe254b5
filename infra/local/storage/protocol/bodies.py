"""Request bodies that are complete, or noticed not to be."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

from starlette.requests import ClientDisconnect

from infra.local.storage.protocol.errors import (
    IncompleteBodyError,
    InvalidArgumentError,
    StorageError,
)
from infra.local.storage.protocol.multipart import MOST_METADATA_BYTES, parsed_json
from infra.local.storage.protocol.preconditions import parsed_number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from infra.local.storage.protocol.resources import Json

_MOST_DRAINED_BYTES = 64 * 1024 * 1024


class Body:
    """A request's body in pieces; `announced` is its Content-Length in bytes, if it has one."""

    def __init__(self, request: Request) -> None:
        """Prepare to read.

        Raises:
            InvalidArgumentError: the Content-Length is not a number.
        """
        self.announced = parsed_number(request.headers.get("content-length"), "Content-Length")
        self._pieces = request.stream()
        self._received = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next piece.

        Raises:
            ClientDisconnect: the client went away in the middle.
            IncompleteBodyError: the body ended before its announced length.
        """
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            if self.announced not in {None, self._received}:
                raise IncompleteBodyError(
                    f"{self._received} of {self.announced} bytes arrived."
                ) from None
            raise
        self._received += len(piece)
        return piece

    async def drain(self) -> None:
        """Read on, up to a limit, and forget: a client that still sends would miss the answer."""
        limit = _MOST_DRAINED_BYTES
        async for piece in self._pieces:
            limit -= len(piece)
            if limit < 0:
                return


@asynccontextmanager
async def received_body(request: Request) -> AsyncIterator[Body]:
    """A request's body; read to its end where the block refuses it."""
    body = Body(request)
    try:
        yield body
    except StorageError:
        # A client that waits for "100 Continue" gets the answer instead of being asked to send.
        if "expect" not in request.headers:
            await _drained(body)
        raise


async def _drained(body: Body) -> None:
    try:
        await body.drain()
    except ClientDisconnect:
        return


async def json_body(request: Request) -> Json:
    """A request's body as a JSON object, empty where there is none.

    Raises:
        InvalidArgumentError: it is something else, or larger than any resource.
    """
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MOST_METADATA_BYTES:
            raise InvalidArgumentError("The object resource is too large.")
    return parsed_json(bytes(content))
