"""The largest and the slowest body of a request that carries no recording."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BYTES: Final = 16_384
"""The wish for a voice is a few hundred bytes of JSON; FastAPI itself has no limit."""


BODY_SECONDS: Final = 10.0
"""How long it may take to come: it is read before it is known who sends it, and counted."""

FILES: Final = "/api/v1/verifications"
"""The one address to which files are posted; it has a limit of its own."""


class OversizedBodyError(HTTPException):
    """A request's body is larger than `LARGEST_BYTES`.

    It is an `HTTPException`, because FastAPI passes on no other kind while it reads a body.
    """

    def __init__(self) -> None:
        super().__init__(413, f"The body has more than the {LARGEST_BYTES} bytes accepted here.")


class LateBodyError(HTTPException):
    """A request's body did not come within `BODY_SECONDS`; see `OversizedBodyError`."""

    def __init__(self) -> None:
        super().__init__(408, f"The body did not arrive within {BODY_SECONDS:g} seconds.")


class BodyLimitMiddleware:
    """ASGI middleware: stops reading a body that is too large or late; `PUT` has its own limits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] == "PUT" or scope["path"] == FILES:
            await self._app(scope, receive, send)
            return
        received, has_ended = 0, False
        deadline = asyncio.get_running_loop().time() + BODY_SECONDS

        async def receive_little() -> Message:
            nonlocal received, has_ended
            try:
                # After the body comes only the end of the connection.
                async with asyncio.timeout_at(None if has_ended else deadline):
                    message = await receive()
            except TimeoutError as error:
                raise LateBodyError from error
            has_ended = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > LARGEST_BYTES:
                raise OversizedBodyError
            return message

        await self._app(scope, receive_little, send)
