"""The facts of a request, whatever the dialect."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse

from shared.speech.results.statement import DIGITAL_SOURCE_TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from functions.compat.service.keys import Refuse
    from functions.compat.service.synthesis import SpokenStream, Synthesis


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
    """Build the receiver of a request's body, which fails when all of it takes longer than that."""
    end = asyncio.get_running_loop().time() + seconds

    async def receive_in_time() -> Message:
        try:
            async with asyncio.timeout_at(end):
                return await receive()
        except TimeoutError:
            detail = f"The body did not come within {seconds:g} s."
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, detail) from None

    return receive_in_time


MARKED: Final = {"X-Digital-Source-Type": DIGITAL_SOURCE_TYPE}
"""The header that marks speech as synthetic, also where its format cannot hold the statement."""


class SpokenAnswer(StreamingResponse):
    """The content of a stream, whose place is given back however the answer ends."""

    def __init__(
        self,
        synthesis: Synthesis,
        stream: SpokenStream,
        media_type: str,
        form: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]] = lambda pieces: pieces,
    ) -> None:
        super().__init__(form(stream.read()), media_type=media_type, headers=MARKED)
        self._synthesis = synthesis
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._synthesis.close(self._stream)


_LOG = logging.getLogger(__name__)

PIECE_BYTES: Final = 32 << 10
"""How much of a body is sent at once."""

UNREAD_SECONDS: Final = 20.0
"""How long a piece may take: a reader must take 1.6 kB a second."""


_MOST_TOLD: Final = 64
"""So many connections back one is remembered, so that each has one line in the log."""


class SlowReadersMiddleware:
    """ASGI middleware: sends bodies in pieces, and ends an answer whose reader takes too long."""

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


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API that clients know."""

    paths: tuple[str, ...]
    app: ASGIApp
    refuse: Refuse


class Dialects:
    """ASGI application: hands each request to the first dialect whose path it has."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = dialects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope.get("path", "/")
        fitting = (each for each in self._dialects if path.startswith(each.paths))
        # Who left in the middle of a body gets no answer, and the log no trace of the stack.
        with suppress(ClientDisconnect):
            await next(fitting, self._dialects[-1]).app(scope, receive, send)


SPOKEN_SECONDS: Final = 5.0
"""For how long after a piece of sound a client counts as one that hears something."""


class ConnectionActivity:
    """What happens on one connection."""

    def __init__(self) -> None:
        self._message_at = asyncio.get_running_loop().time()
        self._sound_at = float("-inf")

    def note_message(self) -> None:
        """Note that the client has sent something."""
        self._message_at = asyncio.get_running_loop().time()

    def note_sound(self) -> None:
        """Note that the client is sent sound."""
        self._sound_at = asyncio.get_running_loop().time()

    @property
    def hears(self) -> bool:
        """Whether the client hears something just now.

        A text that was begun and does not come is not enough: it would hold the place for ever.
        """
        return asyncio.get_running_loop().time() - self._sound_at < SPOKEN_SECONDS

    @property
    def claim(self) -> tuple[bool, float]:
        """The connection with the least makes room: nothing is heard, and it has idled longest."""
        return self.hears, max(self._message_at, self._sound_at)
