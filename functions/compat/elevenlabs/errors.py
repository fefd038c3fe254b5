"""How refusals are answered: in the form of ElevenLabs."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from functions.compat.keys.metering import LimitReachedError
from shared.http.push import OverloadedError
from shared.voices.voice import ErrorCode, VoiceError
from speech.decoding.sandbox.process_answer import DecoderUnavailableError, ResourceLimitError
from speech.engines.interface.text_engine import TextError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    Handler = Callable[[Request, Exception], Awaitable[Response]]


CHANGER: Final = "POST /v1/speech-to-speech/{voice_id}"


class FieldError(Exception):
    """A field that cannot be used.

    Args:
        field: its name.
        message: one sentence for people.
        place: where it was sent: in the `body` or in the `query`.
    """

    def __init__(self, field: str, message: str, place: str = "body") -> None:
        super().__init__(message)
        self.detail = {"loc": [place, field], "msg": message, "type": "value_error"}


class UnknownVoiceError(Exception):
    """There is no such voice; one sentence."""


def refuse(status: HTTPStatus, message: str, code: str | None = None) -> JSONResponse:
    """Answer a refusal."""
    if status is HTTPStatus.UNAUTHORIZED:
        code = "invalid_api_key"
    code = code or status.phrase.lower().replace(" ", "_")
    return JSONResponse({"detail": {"status": code, "message": message}}, status)


def exception_handlers(retry_after_seconds: int) -> dict[type[Exception], Handler]:
    """Build the handlers of errors.

    Args:
        retry_after_seconds: when a client may come again that was sent away with 503.
    """

    async def busy(_: Request, __: Exception) -> Response:
        message = "The service is busy; try again later."
        answer = refuse(HTTPStatus.SERVICE_UNAVAILABLE, message, "system_busy")
        answer.headers["Retry-After"] = str(retry_after_seconds)
        return answer

    return {
        HTTPException: _refuse_http,
        FieldError: _refuse_field,
        UnknownVoiceError: _refuse_voice,
        VoiceError: _refuse_recording,
        TextError: _refuse_length,
        LimitReachedError: _refuse_more,
        OverloadedError: busy,
        DecoderUnavailableError: busy,
        ResourceLimitError: _refuse_costly,
    }


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    status, message = HTTPStatus(error.status_code), error.detail
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        path = request.url.path
        message = f"There is no {request.method} {path} here; voices are changed by {CHANGER}."
    answer = refuse(status, message)
    answer.headers.update(error.headers or {})
    return answer


async def _refuse_field(_: Request, error: Exception) -> Response:
    assert isinstance(error, FieldError)  # noqa: S101 - for the type checker
    return JSONResponse({"detail": [error.detail]}, HTTPStatus.UNPROCESSABLE_ENTITY)


async def _refuse_voice(_: Request, error: Exception) -> Response:
    return refuse(HTTPStatus.NOT_FOUND, str(error), "voice_not_found")


async def _refuse_recording(_: Request, error: Exception) -> Response:
    assert isinstance(error, VoiceError)  # noqa: S101 - for the type checker
    return refuse(HTTPStatus.BAD_REQUEST, error.message, error.code.value)


async def _refuse_more(_: Request, error: Exception) -> Response:
    return refuse(HTTPStatus.TOO_MANY_REQUESTS, str(error), "quota_exceeded")


async def _refuse_length(_: Request, error: Exception) -> Response:
    assert isinstance(error, TextError)  # noqa: S101 - for the type checker
    return refuse(HTTPStatus.BAD_REQUEST, error.message, ErrorCode.TOO_LONG.value)


async def _refuse_costly(_: Request, __: Exception) -> Response:
    message = "The recording takes more time or memory to decode than it may."
    return refuse(HTTPStatus.BAD_REQUEST, message, ErrorCode.TOO_COMPLEX.value)
