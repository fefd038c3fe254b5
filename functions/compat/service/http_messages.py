"""HTTP of all dialects: bounded bodies, errors, answers of sound, and the choice of a dialect."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from functions.compat.service.keys import LimitReachedError
from shared.runtime.push import OverloadedError
from shared.speech.results.statement import DIGITAL_SOURCE_TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from functions.compat.service.synthesis import SpokenStream, Synthesis
    from shared.speech.text.languages import Division

    Handler = Callable[[Request, Any], Awaitable[Response]]

_BODY_SECONDS: Final = 30.0  # the most time for a body, unless it is a recording


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Read a body; raise HTTPException if it is too large or too slow."""
    content = bytearray()
    in_time = Request(request.scope, in_seconds(request.receive, _BODY_SECONDS))
    async for chunk in in_time.stream():
        content += chunk
        if len(content) > most_bytes:
            detail = f"The body is too large: send at most {most_bytes} bytes."
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    return bytes(content)


def in_seconds(receive: Receive, seconds: float) -> Receive:
    """Build a `receive` that fails when the whole body takes longer than that."""
    end = asyncio.get_running_loop().time() + seconds

    async def receive_in_time() -> Message:
        try:
            async with asyncio.timeout_at(end):
                return await receive()
        except TimeoutError:
            detail = f"The body did not come within {seconds:g} s."
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, detail) from None

    return receive_in_time


def answer_with(write: Callable[[Any], Response]) -> Handler:
    async def handle(_: Request, error: Any) -> Response:
        return write(error)

    return handle


def answer_busy(refuse: Callable[..., Response], code: str) -> Handler:
    """Build the handler that sends a client away for a second, with 503."""

    def write(_: Exception) -> Response:
        message = "The service is busy; try again later."
        answer = refuse(HTTPStatus.SERVICE_UNAVAILABLE, message, code=code)
        answer.headers["Retry-After"] = "1"
        return answer

    return answer_with(write)


def common_handlers(
    refuse: Callable[..., Response], *, busy: str, quota: str, offered: str
) -> dict[type[Exception], Handler]:
    async def refuse_http(request: Request, error: HTTPException) -> Response:
        message = error.detail
        if error.status_code in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
            message = f"There is no {request.method} {request.url.path} here; {offered}."
        answer = refuse(HTTPStatus(error.status_code), message)
        answer.headers.update(error.headers or {})
        return answer

    return {
        HTTPException: refuse_http,
        LimitReachedError: answer_with(
            lambda error: refuse(HTTPStatus.TOO_MANY_REQUESTS, str(error), code=quota)
        ),
        OverloadedError: answer_busy(refuse, busy),
    }


# Marks speech as synthetic, also where its format cannot hold the statement.
MARKED: Final = {"X-Digital-Source-Type": DIGITAL_SOURCE_TYPE}


def unread_header(division: Division) -> dict[str, str]:
    """Name the languages and scripts of the parts of a text that were not read, in ASCII."""
    return {"X-Unread-Text": division.unread_names} if division.unread else {}


class SpokenAnswer(StreamingResponse):
    def __init__(
        self,
        synthesis: Synthesis,
        stream: SpokenStream,
        media_type: str,
        form: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]] = lambda pieces: pieces,
        headers: Mapping[str, str] = MARKED,
    ) -> None:
        super().__init__(form(stream.read()), media_type=media_type, headers=headers)
        self._synthesis = synthesis
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._synthesis.close(self._stream)


_LOG = logging.getLogger(__name__)

PIECE_BYTES: Final = 32 << 10  # the most of a body that is sent at once

UNREAD_SECONDS: Final = 20.0  # the most time for a piece: a reader must take 1.6 kB a second


class SlowReadersMiddleware:
    """ASGI middleware: sends bodies in pieces, and ends an answer whose reader takes too long."""

    def __init__(self, app: ASGIApp, unread_seconds: float = UNREAD_SECONDS) -> None:
        self._app = app
        self._unread_seconds = unread_seconds
        # Remembered, so that each connection has one line in the log.
        self._logged: deque[object] = deque(maxlen=64)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            if (connection := scope.get("client")) in self._logged:
                return
            self._logged.append(connection)
            _LOG.info("an answer was not read within %g s", self._unread_seconds)


class DialectRouter:
    """ASGI application: hands each request to the first dialect with its path, or to the last."""

    def __init__(self, dialects: Sequence[tuple[tuple[str, ...], ASGIApp]]) -> None:
        self._dialects = dialects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, (_, last) = scope.get("path", "/"), self._dialects[-1]
        fitting = (app for paths, app in self._dialects if path.startswith(paths))
        # A client that leaves in the middle of a body gets no answer, and no traceback in the log.
        with suppress(ClientDisconnect):
            await next(fitting, last)(scope, receive, send)


_HEARD_SECONDS: Final = 5.0


class ConnectionActivity:
    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._message_at, self._sound_at = self._now(), float("-inf")

    def note_message(self) -> None:
        self._message_at = self._now()

    def note_sound(self) -> None:
        self._sound_at = self._now()

    @property
    def hears(self) -> bool:
        return self._now() - self._sound_at < _HEARD_SECONDS

    @property
    def rank(self) -> tuple[bool, float]:
        """The connection with the least is ended for another: it is silent, and idle longest."""
        return self.hears, max(self._message_at, self._sound_at)
