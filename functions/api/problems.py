"""The largest and the slowest body of a request that carries no recording."""

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


SEEN_SECONDS: Final = 10.0
"""Over how many seconds is counted how many visitors were served."""

SOONEST_SECONDS: Final = 2.0
"""Services that do not answer usually do so again after so long."""

LATEST_SECONDS: Final = 60.0
"""Nobody is sent away for longer: by then Google's services and Cloud Run have grown.

Clients wait for two minutes in all, so that each comes back at least once.
"""

SLOWEST_RATE: Final = 1.0
"""So many visitors a second are called back even where none was served."""


class RetrySchedule:
    """The visitors who were asked to come back later, in the order in which they came.

    Each gets a turn of its own. There are as many turns a second as visitors were served here in
    the last seconds, so that those who come back find room and are not sent away once more. Each
    instance counts for itself, as in `limits.py`.

    Args:
        now: a clock in seconds that never goes back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._served: deque[float] = deque()
        self._last_turn = -math.inf

    def served(self) -> None:
        """Count a visitor who was served."""
        self._served.append(self._now())
        self._forget()

    def turn(self) -> int:
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

MEDIA_TYPE: Final = "application/problem+json"

CLIENT_CLOSED_REQUEST: Final = 499
"""nginx's status for a client that has closed the connection; it is in no standard."""


class Problem(Exception):  # noqa: N818 - RFC 9457's own word
    """An error that is answered as `application/problem+json`."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})

    def response(self) -> JSONResponse:
        """Return the problem as a response."""
        content = {
            "type": f"urn:voice-avatar:problem:{self.code}",
            "title": _title(self.status),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        return JSONResponse(content, self.status, self.headers, media_type=MEDIA_TYPE)


class ClientGoneError(Exception):
    """The client closed its connection, so nobody reads the answer."""


def install(app: FastAPI, routes: Sequence[BaseRoute], line: RetrySchedule) -> None:
    """Make an application that has these routes answer every error as a problem."""
    app.add_exception_handler(Problem, _from_problem)
    app.add_exception_handler(RequestValidationError, _from_validation)
    app.add_exception_handler(HTTPException, partial(_from_http, routes))
    for kind, problem in _KNOWN.items():
        app.add_exception_handler(kind, problem)
    app.add_exception_handler(PassingError, partial(_unavailable, line))
    app.add_middleware(UnexpectedErrorMiddleware)


async def _from_problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)  # noqa: S101 - it is registered only for this class
    return error.response()


async def _from_validation(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    detail = "; ".join(_explain(problem) for problem in error.errors())
    return Problem(422, "invalid_request", detail).response()


async def _from_http(
    routes: Sequence[BaseRoute], request: Request, error: Exception
) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    code = _title(error.status_code).lower().replace(" ", "_")
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_of(routes, request))
    return Problem(error.status_code, code, str(error.detail), headers).response()


def _methods_of(routes: Sequence[BaseRoute], request: Request) -> list[str]:
    """Return the methods of an address; each of them is a route of its own."""
    matching = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in matching for method in getattr(route, "methods", ())})


async def _unknown_voice(_request: Request, error: Exception) -> JSONResponse:
    return Problem(404, "unknown_voice", str(error)).response()


async def _unreadable_voice(_request: Request, error: Exception) -> JSONResponse:
    _LOG.error("voice left alone: %s", error, extra={"event": "unreadable_voice"})
    detail = "This voice cannot be read; create a new one. It is erased by itself after a day."
    return Problem(409, "unreadable_voice", detail).response()


async def _invalid_voice_id(_request: Request, error: Exception) -> JSONResponse:
    return Problem(422, "invalid_voice_id", str(error)).response()


async def _token_refused(_request: Request, error: Exception) -> JSONResponse:
    challenge = {"WWW-Authenticate": "Bearer"}
    return Problem(401, "token_refused", f"Sign in again: {error}.", challenge).response()


async def _unavailable(line: RetrySchedule, _request: Request, error: Exception) -> JSONResponse:
    _LOG.warning("unavailable: %s", error, extra={"event": "unavailable"})
    seconds = line.turn()
    detail = f"A part of the service does not answer just now; please try again in {seconds} s."
    return Problem(503, "unavailable", detail, {"Retry-After": str(seconds)}).response()


async def _oversized(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OversizedBodyError)  # noqa: S101 - as above
    return Problem(413, ErrorCode.TOO_LARGE, str(error.detail)).response()


async def _late(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, LateBodyError)  # noqa: S101 - as above
    return Problem(408, "request_timeout", str(error.detail)).response()


async def _client_gone(_request: Request, _error: Exception) -> JSONResponse:
    detail = "The client closed the connection."
    return Problem(CLIENT_CLOSED_REQUEST, "client_closed_request", detail).response()


class UnexpectedErrorMiddleware:
    """ASGI middleware: logs an unexpected exception and answers it.

    It runs inside the middleware that adds CORS headers, so that a page can read the answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
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


_KNOWN: Final = {
    UnknownVoiceError: _unknown_voice,
    UnreadableVoiceError: _unreadable_voice,
    InvalidVoiceIdError: _invalid_voice_id,
    OversizedBodyError: _oversized,
    LateBodyError: _late,
    TokenRefusedError: _token_refused,
    ClientDisconnect: _client_gone,
    ClientGoneError: _client_gone,
}


def _title(status: int) -> str:
    if status == CLIENT_CLOSED_REQUEST:
        return "Client Closed Request"
    return HTTPStatus(status).phrase


def _explain(problem: Mapping[str, Any]) -> str:
    unnamed = ("body", RECORDING_TAG, TEXT_TAG)
    where = ".".join(str(part) for part in problem["loc"] if part not in unnamed) or "the body"
    return f"{where}: {problem['msg']}"
