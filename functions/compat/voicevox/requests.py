"""How refusals are answered: as the engines of VOICEVOX, which use FastAPI, do."""

from __future__ import annotations

import math
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from functions.compat.service import http_messages
from functions.compat.service.keys import LimitReachedError
from functions.compat.service.synthesis import ClientLeftError
from functions.compat.voicevox.queries import KanaError
from functions.compat.voicevox.user_data import UserDataFullError
from functions.compat.voicevox.waves import WavesError
from shared.runtime.push import OverloadedError
from shared.speech.engines.text_interface import TextError
from shared.speech.text.dictionary import WordError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from functions.compat.voicevox.speakers import SpeakerStyle, VoicevoxSpeakers


if TYPE_CHECKING:
    Handler = Callable[[Request, Exception], Awaitable[Response]]


_MOST_OF_A_KEY = 100
_CLIENT_CLOSED_REQUEST = 499  # nginx's; nobody is there to read it


class UnusableParameterError(HTTPException):
    """A parameter of the address that cannot be used, described as FastAPI does.

    Args:
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
        UserDataFullError: _unusable,
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


_LARGEST_BODY = 8 << 20


def read_style(voices: VoicevoxSpeakers, request: Request) -> SpeakerStyle:
    """Return the style that the parameter `speaker` names.

    Raises:
        UnusableParameterError: the parameter is missing or no number.
        HTTPException: there is no such style.
    """
    return find_style(voices, read_number(request, "speaker"))


def find_style(voices: VoicevoxSpeakers, number: int) -> SpeakerStyle:
    """Return the style of a number.

    Raises:
        HTTPException: there is no such style.
    """
    style = voices.find_style(number)
    if style is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"スタイル {number} は存在しません。")
    return style


class _Parameter(BaseModel):
    """Used for its errors, which clients of FastAPI know."""

    query: int


def read_text(request: Request, name: str) -> str:
    """Return a parameter.

    Raises:
        UnusableParameterError: it is missing.
    """
    value = request.query_params.get(name)
    if value is None:
        raise UnusableParameterError(name, "missing", "Field required", None)
    return value


def read_number(request: Request, name: str, default: int | None = None) -> int:
    """Return a parameter that is a number.

    Args:
        default: what a missing one means; None if it must be there.

    Raises:
        UnusableParameterError: it is missing or no number.
    """
    value = request.query_params.get(name)
    if value is None and default is not None:
        return default
    text = read_text(request, name)
    try:
        return _Parameter.model_validate({"query": text}).query
    except ValidationError as error:
        first = error.errors()[0]
        raise UnusableParameterError(name, first["type"], first["msg"], text) from error


def read_flag(request: Request, name: str, *, default: bool) -> bool:
    """Return a parameter that is true or false, or what a missing one means.

    Raises:
        UnusableParameterError: it is neither.
    """
    value = request.query_params.get(name)
    if value is None:
        return default
    if value.lower() not in {"true", "false", "1", "0"}:
        raise UnusableParameterError(name, "bool_parsing", "Input should be a valid boolean", value)
    return value.lower() in {"true", "1"}


def read_seconds(request: Request, name: str, default: float, least: float | None = None) -> float:
    """Return a parameter that is a finite time in seconds, or what a missing one means.

    Args:
        least: what it must be above; None if it may be 0.

    Raises:
        UnusableParameterError: it is no such number.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        message = "Input should be a valid number of seconds"
        raise UnusableParameterError(name, "float_parsing", message, text)
    if least is not None and seconds <= least:
        message = f"Input should be greater than {least:g}"
        raise UnusableParameterError(name, "greater_than", message, text)
    return seconds


read_body = partial(http_messages.read_body, most_bytes=_LARGEST_BODY)
"""Reads a body of at most 8 MiB."""
