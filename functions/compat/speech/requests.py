"""The facts of a request, whatever the dialect."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

if TYPE_CHECKING:
    from starlette.types import Message, Receive

BODY_SECONDS: Final = 30.0
"""How long a body may take, unless it is a recording."""


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Read a body.

    Raises:
        HTTPException: it is larger than it may be, or comes too slowly.
    """
    content = bytearray()
    in_time = Request(request.scope, in_seconds(request.receive, BODY_SECONDS))
    async for chunk in in_time.stream():
        content += chunk
        if len(content) > most_bytes:
            detail = f"The body is too large: at most {most_bytes} bytes are taken."
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    return bytes(content)


def in_seconds(receive: Receive, seconds: float) -> Receive:
    """Build the receiver of a request's body, which fails when all of it takes longer than that.

    Args:
        receive: the request's own.
        seconds: from now.
    """
    end = asyncio.get_running_loop().time() + seconds

    async def receive_in_time() -> Message:
        try:
            async with asyncio.timeout_at(end):
                return await receive()
        except TimeoutError:
            detail = f"The body did not come within {seconds:g} s."
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, detail) from None

    return receive_in_time
