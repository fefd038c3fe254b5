"""How refusals are answered: as the engines of VOICEVOX, which use FastAPI, do."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from functions.compat.keys.metering import LimitReachedError
from functions.compat.speech.synthesis import ClientLeftError
from functions.compat.voicevox.memory.memory import FullError
from functions.compat.voicevox.queries.kana import KanaError
from functions.compat.voicevox.speech.waves import WavesError
from shared.http.push import OverloadedError
from speech.engines.interface.text_engine import TextError
from speech.text.phones.dictionary import WordError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    Handler = Callable[[Request, Exception], Awaitable[Response]]


_MOST_OF_A_KEY = 100
_CLIENT_CLOSED_REQUEST = 499  # nginx's; nobody is there to read it


class UnusableParameterError(HTTPException):
    """A parameter of the address that cannot be used, described as FastAPI does.

    Args:
        name: of the parameter.
        kind: of the error, in pydantic's words.
        message: likewise.
        value: what was sent; None if nothing was.
    """

    def __init__(self, name: str, kind: str, message: str, value: str | None) -> None:
        detail = {"type": kind, "loc": ["query", name], "msg": message, "input": value}
        super().__init__(HTTPStatus.UNPROCESSABLE_ENTITY, "unusable")
        self.details = [detail]


def unknown_preset() -> HTTPException:
    """Return the error for a preset that there is not."""
    return HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "該当するプリセットIDが見つかりません")


def refuse(status: HTTPStatus, message: str) -> Response:
    """Answer a refusal; clients of VOICEVOX send a key that stands in the address."""
    is_key_missing = status is HTTPStatus.UNAUTHORIZED
    challenge = {"WWW-Authenticate": 'Basic realm="voicevox"'} if is_key_missing else None
    return JSONResponse({"detail": message}, status, challenge)


def exception_handlers(retry_after_seconds: int) -> dict[type[Exception], Handler]:
    """Build the handlers of errors.

    Args:
        retry_after_seconds: when a client may come again that was sent away with 503.
    """

    async def busy(_: Request, __: Exception) -> Response:
        return JSONResponse(
            {"detail": "The service is busy; try again later."},
            HTTPStatus.SERVICE_UNAVAILABLE,
            {"Retry-After": str(retry_after_seconds)},
        )

    return {
        HTTPException: _refuse,
        ValidationError: _invalid,
        KanaError: _unreadable_kana,
        TextError: _unusable,
        WordError: _unusable,
        FullError: _unusable,
        WavesError: _unusable,
        LimitReachedError: _refuse_more,
        OverloadedError: busy,
        ClientLeftError: _gone,
    }


async def _refuse_more(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, HTTPStatus.TOO_MANY_REQUESTS)


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=_CLIENT_CLOSED_REQUEST)


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    detail = error.details if isinstance(error, UnusableParameterError) else error.detail
    return JSONResponse({"detail": detail}, error.status_code, error.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, ValidationError)  # noqa: S101 - for the type checker
    details = [
        {
            "type": each["type"],
            # A key of the body may be as long as the body.
            "loc": ["body", *map(_shortened, each["loc"])],
            "msg": each["msg"],
        }
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return JSONResponse({"detail": details}, HTTPStatus.UNPROCESSABLE_ENTITY)


def _shortened(part: int | str) -> int | str:
    return part[:_MOST_OF_A_KEY] if isinstance(part, str) else part


async def _unreadable_kana(_: Request, error: Exception) -> Response:
    assert isinstance(error, KanaError)  # noqa: S101 - for the type checker
    detail = {"text": str(error), "error_name": error.code, "error_args": error.arguments}
    return JSONResponse({"detail": detail}, HTTPStatus.BAD_REQUEST)


async def _unusable(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, HTTPStatus.UNPROCESSABLE_ENTITY)
