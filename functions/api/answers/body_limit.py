"""The largest body of a request that carries no recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BYTES: Final = 16_384
"""The wish for a voice is a few hundred bytes of JSON; FastAPI itself has no limit."""


FILES: Final = "/api/v1/verifications"
"""The one address to which files are posted; it has a limit of its own."""


class OversizedBodyError(HTTPException):
    """A request's body is larger than `LARGEST_BYTES`.

    It is an `HTTPException`, because FastAPI passes on no other kind while it reads a body.
    """

    def __init__(self) -> None:
        super().__init__(413, f"The body has more than the {LARGEST_BYTES} bytes accepted here.")


class BodyLimitMiddleware:
    """ASGI middleware: stops reading a body that is too large; `PUT` has a limit of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] == "PUT" or scope["path"] == FILES:
            await self._app(scope, receive, send)
            return
        received = 0

        async def receive_little() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > LARGEST_BYTES:
                raise OversizedBodyError
            return message

        await self._app(scope, receive_little, send)
