"""Reads requests: the parameters of the address, and the body."""

from __future__ import annotations

import math
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from functions.compat.speech import requests
from functions.compat.voicevox.routes.errors import UnusableParameterError

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.compat.voicevox.speech.voices import OfferedStyle, Voices

_LARGEST_BODY = 8 << 20


def read_style(voices: Voices, request: Request) -> OfferedStyle:
    """Return the style that the parameter `speaker` names.

    Raises:
        UnusableParameterError: the parameter is missing or no number.
        HTTPException: there is no such style.
    """
    return find_style(voices, read_number(request, "speaker"))


def find_style(voices: Voices, number: int) -> OfferedStyle:
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
        request: that carries it.
        name: of the parameter.
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
        request: that carries it.
        name: of the parameter.
        default: what a missing one means.
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


read_body = partial(requests.read_body, most_bytes=_LARGEST_BODY)
"""Reads a body of at most 8 MiB."""
