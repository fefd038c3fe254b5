"""Lets applications answer before they have read what the client sends.

Hypercorn 0.18 queues what comes for the application. When the application has answered and the
queue is full, neither the end of the request nor the end of the connection is noticed any more: the
connection stays open for ever, and a client that uses it again waits in vain. A recording that was
refused for its key or its voice was enough for that.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES: Final = 40 << 20
"""How much of a body is read that nobody wants: more than the largest recording has."""

MOST_SECONDS: Final = 20.0
IDLE_SECONDS: Final = 1.0
"""For how long the rest of a body is waited for, and for how long its next piece."""


class UnreadBodies:
    """ASGI middleware: reads the rest of a request's body, within bounds, when it is answered.

    The answer leaves at once. A client that has sent everything then can use the connection again;
    otherwise the connection ends.

    Args:
        app: whose requests are read to their end.
        idle_seconds: for how long the next piece of a body is waited for.
    """

    def __init__(self, app: ASGIApp, idle_seconds: float = IDLE_SECONDS) -> None:
        self._app = app
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_ended = False

        async def receive_noting() -> Message:
            nonlocal has_ended
            message = await receive()
            has_ended = has_ended or _is_last(message)
            return message

        async def send_after_body(message: Message) -> None:
            if has_ended or message["type"] != "http.response.body" or message.get("more_body"):
                await send(message)
                return
            await send({**message, "more_body": True})
            await self._read_rest(receive)
            reading = asyncio.create_task(_read_for_ever(receive))
            try:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                reading.cancel()

        try:
            await self._app(scope, receive_noting, send_after_body)
        except Exception:
            # The server answers 500, and then waits in the same way.
            if not has_ended:
                await self._read_rest(receive)
            raise

    async def _read_rest(self, receive: Receive) -> None:
        read = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(MOST_SECONDS):
                while read < MOST_BYTES:
                    async with asyncio.timeout(self._idle_seconds):
                        message = await receive()
                    if _is_last(message):
                        return
                    read += len(message.get("body", b""))


def _is_last(message: Message) -> bool:
    return message["type"] == "http.disconnect" or not message.get("more_body", False)


async def _read_for_ever(receive: Receive) -> Any:
    while True:
        await receive()
