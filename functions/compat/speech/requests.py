"""What requests carry, whatever the dialect."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.requests import Request


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Read a body.

    Raises:
        HTTPException: it is larger than it may be.
    """
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > most_bytes:
            detail = f"The body is too large: at most {most_bytes} bytes are taken."
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    return bytes(content)
