"""Ends answers that nobody reads, so that a slow reader costs a bounded time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG = logging.getLogger(__name__)

PIECE_BYTES: Final = 32 << 10
"""How much of a body is sent at once."""

UNREAD_SECONDS: Final = 20.0
"""How long a piece may take: a reader must take 1.6 kB a second."""


_MOST_TOLD: Final = 64
"""So many connections back one is remembered, so that each has one line in the log."""


class SlowReadersMiddleware:
    """ASGI middleware: sends bodies in pieces, and ends an answer whose reader takes too long.

    Args:
        app: whose answers are sent.
        unread_seconds: how long one piece may take.
    """

    def __init__(self, app: ASGIApp, unread_seconds: float = UNREAD_SECONDS) -> None:
        self._app = app
        self._unread_seconds = unread_seconds
        self._told: deque[object] = deque(maxlen=_MOST_TOLD)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        is_lost = False

        async def send_piece(message: Message) -> None:
            nonlocal is_lost
            try:
                async with asyncio.timeout(self._unread_seconds):
                    await send(message)
            except TimeoutError:
                is_lost = True
                raise

        async def send_in_pieces(message: Message) -> None:
            body: bytes = message.get("body", b"")
            begins = range(0, len(body) - PIECE_BYTES, PIECE_BYTES)
            for begin in begins:
                piece = body[begin : begin + PIECE_BYTES]
                await send_piece({"type": message["type"], "body": piece, "more_body": True})
            rest = body[len(begins) * PIECE_BYTES :]
            await send_piece({**message, "body": rest} if body else message)

        try:
            await self._app(scope, receive, send_in_pieces)
        except Exception:
            if not is_lost:
                raise
            # The answer is incomplete, so the server closes the connection, or with HTTP/2 the
            # request, of which one connection has many.
            if (connection := scope.get("client")) in self._told:
                return
            self._told.append(connection)
            _LOG.info("an answer was not read within %g s", self._unread_seconds)
