"""The errors of the api: their form, the limits of a body, and when to try again."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Match

from functions.api.schemas import RECORDING_TAG, TEXT_TAG
from shared.ports import TokenRefusedError
from shared.voices.store import UnknownVoiceError, UnreadableVoiceError
from shared.voices.voice import ErrorCode, InvalidVoiceIdError, PassingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


LARGEST_BYTES: Final = 16_384  # a request for a voice has some hundred; FastAPI has no limit
BODY_SECONDS: Final = 10.0  # a body is read before its sender is known and counted
FILES: Final = "/api/v1/verifications"  # files are posted here; it has a limit of its own


class BodyError(HTTPException):
    """A body is too large or late. FastAPI passes on no other kind while it reads a body."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(status, detail)
        self.code = code


class BodyLimitMiddleware:
    """Stops reading a body that is too large or late; `PUT` has its own limits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "PUT" or scope["path"] == FILES:
            await self._app(scope, receive, send)
            return
        received, has_ended = 0, False
        deadline = asyncio.get_running_loop().time() + BODY_SECONDS

        async def receive_limited() -> Message:
            nonlocal received, has_ended
            try:
                # After the body comes only the end of the connection.
                async with asyncio.timeout_at(None if has_ended else deadline):
                    message = await receive()
            except TimeoutError as error:
                detail = f"The body did not arrive within {BODY_SECONDS:g} seconds."
                raise BodyError(408, "request_timeout", detail) from error
            has_ended = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > LARGEST_BYTES:
                detail = f"The body has more than the {LARGEST_BYTES} bytes accepted here."
                raise BodyError(413, ErrorCode.TOO_LARGE, detail)
            return message

        await self._app(scope, receive_limited, send)


SEEN_SECONDS: Final = 10.0  # over which served visitors are counted
SOONEST_SECONDS: Final = 2.0  # after which a service usually answers again
LATEST_SECONDS: Final = (
    60.0  # clients wait for two minutes in all, so each comes back at least once
)
SLOWEST_RATE: Final = 1.0  # visitors per second who are called back even where none was served


class RetrySchedule:
    """Turns for the visitors that are asked to come back later, one for each.

    There are as many turns a second as visitors were served here in the last seconds, so that
    returning visitors find room and are not sent away once more.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._served: deque[float] = deque()
        self._last_turn = -math.inf

    def count_served(self) -> None:
        self._served.append(self._now())
        self._forget()

    def next_turn(self) -> int:
        """Return the seconds after which one more visitor shall come back."""
        self._forget()
        now = self._now()
        rate = max(SLOWEST_RATE, len(self._served) / SEEN_SECONDS)
        turn = max(self._last_turn + 1 / rate, now + SOONEST_SECONDS)
        self._last_turn = min(turn, now + LATEST_SECONDS)
        return math.ceil(self._last_turn - now)

    def _forget(self) -> None:
        while self._served and self._served[0] <= self._now() - SEEN_SECONDS:
            self._served.popleft()


_LOG = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST: Final = 499  # nginx's status; it is in no standard


class Problem(Exception):  # noqa: N818 - RFC 9457's own word
    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})

    def response(self) -> JSONResponse:
        content = {
            "type": f"urn:voice-avatar:problem:{self.code}",
            "title": title_of(self.status),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        return JSONResponse(
            content, self.status, self.headers, media_type="application/problem+json"
        )


class ClientGoneError(Exception):
    """The client closed its connection, so nobody reads the answer."""


def install(app: FastAPI, routes: Sequence[BaseRoute], retry_schedule: RetrySchedule) -> None:
    """Make an application that has these routes answer every error as a problem."""

    def add(kind: type[Exception], describe: Callable[[Any], Problem]) -> None:
        async def respond(_request: Request, error: Exception) -> JSONResponse:
            return describe(error).response()

        app.add_exception_handler(kind, respond)

    async def from_http(request: Request, error: Exception) -> JSONResponse:
        return _from_http(error, routes, request).response()

    app.add_exception_handler(HTTPException, from_http)
    add(Problem, lambda error: error)
    add(RequestValidationError, _from_validation)
    add(PassingError, partial(_unavailable, retry_schedule))
    add(UnreadableVoiceError, _unreadable_voice)
    challenge = {"WWW-Authenticate": "Bearer"}
    add(
        TokenRefusedError,
        lambda error: Problem(401, "token_refused", f"Sign in again: {error}.", challenge),
    )
    add(UnknownVoiceError, lambda error: Problem(404, "unknown_voice", str(error)))
    add(InvalidVoiceIdError, lambda error: Problem(422, "invalid_voice_id", str(error)))
    add(BodyError, lambda error: Problem(error.status_code, error.code, error.detail))
    gone = "The client closed the connection."
    for kind in (ClientDisconnect, ClientGoneError):
        add(kind, lambda _: Problem(CLIENT_CLOSED_REQUEST, "client_closed_request", gone))
    app.add_middleware(UnexpectedErrorMiddleware)


def _from_validation(error: RequestValidationError) -> Problem:
    unnamed = ("body", RECORDING_TAG, TEXT_TAG)

    def explain(fault: Mapping[str, Any]) -> str:
        where = ".".join(str(part) for part in fault["loc"] if part not in unnamed)
        return f"{where or 'the body'}: {fault['msg']}"

    return Problem(422, "invalid_request", "; ".join(map(explain, error.errors())))


def _from_http(error: Exception, routes: Sequence[BaseRoute], request: Request) -> Problem:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered only for this class
    code = title_of(error.status_code).lower().replace(" ", "_")
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # Each method of an address is a route of its own.
        matching = (each for each in routes if each.matches(request.scope)[0] is not Match.NONE)
        methods = {method for route in matching for method in getattr(route, "methods", ())}
        headers["Allow"] = ", ".join(sorted(methods))
    return Problem(error.status_code, code, str(error.detail), headers)


def _unreadable_voice(error: UnreadableVoiceError) -> Problem:
    _LOG.error("voice left alone: %s", error, extra={"event": "unreadable_voice"})
    detail = "This voice cannot be read; create a new one. It is erased by itself after a day."
    return Problem(409, "unreadable_voice", detail)


def _unavailable(retry_schedule: RetrySchedule, error: PassingError) -> Problem:
    _LOG.warning("unavailable: %s", error, extra={"event": "unavailable"})
    seconds = retry_schedule.next_turn()
    detail = f"A part of the service does not answer just now; please try again in {seconds} s."
    return Problem(503, "unavailable", detail, {"Retry-After": str(seconds)})


class UnexpectedErrorMiddleware:
    """Logs an unexpected exception and answers it, inside CORS, so that a page can read it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def note_begin(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, note_begin)
        except Exception:
            if has_begun or scope["type"] != "http":
                raise
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            detail = "Something unexpected went wrong; it was logged."
            await Problem(500, "internal", detail).response()(scope, receive, send)


def title_of(status: int) -> str:
    is_nginx_own = status == CLIENT_CLOSED_REQUEST
    return "Client Closed Request" if is_nginx_own else HTTPStatus(status).phrase
