"""Parameters, bodies and errors in the form of VOICEVOX's engines, which use FastAPI."""

from __future__ import annotations

import math
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from functions.compat.service import http_messages
from functions.compat.service.http_messages import answer_busy, answer_with
from functions.compat.service.keys import LimitReachedError
from functions.compat.service.synthesis import ClientLeftError
from functions.compat.voicevox.queries import KanaError
from functions.compat.voicevox.user_data import UserDataFullError
from shared.runtime.push import OverloadedError
from shared.speech.engines.text_interface import TextError
from shared.speech.text.dictionary import WordError

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.compat.service.http_messages import Handler
    from functions.compat.voicevox.speakers import SpeakerStyle, VoicevoxSpeakers

_MOST_OF_A_KEY = 100
_CLIENT_CLOSED_REQUEST = 499  # nginx's; nobody is there to read it


class UnusableParameterError(HTTPException):
    def __init__(self, name: str, kind: str, message: str, value: str | None) -> None:
        detail = {"type": kind, "loc": ["query", name], "msg": message, "input": value}
        super().__init__(HTTPStatus.UNPROCESSABLE_ENTITY, "unusable")
        self.details = [detail]


class WavesError(Exception):
    """WAV files that cannot be joined."""


def unknown_preset() -> HTTPException:
    return HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "該当するプリセットIDが見つかりません")


def unknown_word() -> HTTPException:
    return HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "該当する単語が見つかりません")


def refuse(status: HTTPStatus, message: str, *, code: str | None = None) -> Response:
    """Write an error, without its code; clients of VOICEVOX send a key that the address holds."""
    del code
    is_key_missing = status is HTTPStatus.UNAUTHORIZED
    challenge = {"WWW-Authenticate": 'Basic realm="voicevox"'} if is_key_missing else None
    return JSONResponse({"detail": message}, status, challenge)


def exception_handlers() -> dict[type[Exception], Handler]:
    unusable = answer_with(lambda error: refuse(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)))
    return {
        HTTPException: answer_with(refuse_http),
        ValidationError: answer_with(refuse_body),
        KanaError: answer_with(refuse_kana),
        TextError: unusable,
        WordError: unusable,
        UserDataFullError: unusable,
        WavesError: unusable,
        LimitReachedError: answer_with(
            lambda error: refuse(HTTPStatus.TOO_MANY_REQUESTS, str(error))
        ),
        OverloadedError: answer_busy(refuse, "busy"),
        ClientLeftError: answer_with(lambda _: Response(status_code=_CLIENT_CLOSED_REQUEST)),
    }


def refuse_http(error: HTTPException) -> Response:
    detail = error.details if isinstance(error, UnusableParameterError) else error.detail
    return JSONResponse({"detail": detail}, error.status_code, error.headers)


def refuse_body(error: ValidationError) -> Response:
    details = []
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        # A key of the body may be as long as the body.
        loc = (part if isinstance(part, int) else part[:_MOST_OF_A_KEY] for part in each["loc"])
        details.append({"type": each["type"], "loc": ["body", *loc], "msg": each["msg"]})
    return JSONResponse({"detail": details}, HTTPStatus.UNPROCESSABLE_ENTITY)


def refuse_kana(error: KanaError) -> Response:
    detail = {"text": str(error), "error_name": error.code.name, "error_args": error.arguments}
    return JSONResponse({"detail": detail}, HTTPStatus.BAD_REQUEST)


_LARGEST_BODY = 8 << 20


def read_style(voices: VoicevoxSpeakers, request: Request) -> SpeakerStyle:
    return find_style(voices, read_number(request, "speaker"))


def find_style(voices: VoicevoxSpeakers, number: int) -> SpeakerStyle:
    style = voices.find_style(number)
    if style is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"スタイル {number} は存在しません。")
    return style


_NUMBER = TypeAdapter(int)  # its errors are those that clients of FastAPI know


def read_text(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if not values:
        raise UnusableParameterError(name, "missing", "Field required", None)
    if len(values) > 1:  # the parts of a compound word, for AivisSpeech
        message = "Input should be one value; join the parts of a compound word"
        raise UnusableParameterError(name, "too_many_values", message, values[0])
    return values[0]


def read_number(request: Request, name: str, default: int | None = None) -> int:
    value = request.query_params.get(name)
    if value is None and default is not None:
        return default
    text = read_text(request, name)
    try:
        return _NUMBER.validate_python(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise UnusableParameterError(name, first["type"], first["msg"], text) from error


def read_flag(request: Request, name: str, *, default: bool) -> bool:
    value = request.query_params.get(name)
    if value is None:
        return default
    if value.lower() not in {"true", "false", "1", "0"}:
        raise UnusableParameterError(name, "bool_parsing", "Input should be a valid boolean", value)
    return value.lower() in {"true", "1"}


def read_seconds(request: Request, name: str, default: float, least: float | None = None) -> float:
    """Return a parameter that is a finite time in seconds, above `least` if that is given."""
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
