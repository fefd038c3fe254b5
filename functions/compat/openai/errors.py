"""How refusals are answered: in the form of OpenAI."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from functions.compat.keys.metering import LimitReachedError
from shared.http.push import OverloadedError
from speech.engines.interface.text_engine import TextError, TextErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    Handler = Callable[[Request, Exception], Awaitable[Response]]


SPEECH: Final = "POST /v1/audio/speech"


class RequestError(Exception):
    """A request that cannot be served.

    Args:
        message: one sentence for people.
        param: the field that is wrong; None if it is no field.
        code: for programs; None if there is none.
        status: of the answer.
    """

    def __init__(
        self,
        message: str,
        param: str | None = None,
        code: str | None = None,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


def refuse(
    status: HTTPStatus, message: str, param: str | None = None, code: str | None = None
) -> JSONResponse:
    """Answer a refusal."""
    if status is HTTPStatus.UNAUTHORIZED:
        code = "invalid_api_key"
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    return JSONResponse({"error": _body(kind, message, param, code)}, status)


def exception_handlers(retry_after_seconds: int) -> dict[type[Exception], Handler]:
    """Build the handlers of errors.

    Args:
        retry_after_seconds: when a client may come again that was sent away with 503.
    """

    async def busy(_: Request, __: Exception) -> Response:
        answer = refuse(
            HTTPStatus.SERVICE_UNAVAILABLE, "The service is busy; try again later.", code="busy"
        )
        answer.headers["Retry-After"] = str(retry_after_seconds)
        return answer

    return {
        HTTPException: _refuse_http,
        RequestError: _refuse_request,
        ValidationError: _refuse_fields,
        TextError: _refuse_text,
        LimitReachedError: _refuse_more,
        OverloadedError: busy,
    }


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    status, message = HTTPStatus(error.status_code), error.detail
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        path = request.url.path
        message = f"There is no {request.method} {path} here; speech comes from {SPEECH}."
    answer = refuse(status, message)
    answer.headers.update(error.headers or {})
    return answer


async def _refuse_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)  # noqa: S101 - for the type checker
    return refuse(error.status, error.message, error.param, error.code)


async def _refuse_fields(_: Request, error: Exception) -> Response:
    assert isinstance(error, ValidationError)  # noqa: S101 - for the type checker
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = ".".join(map(str, first["loc"][:1])) or None
    return refuse(HTTPStatus.BAD_REQUEST, f"{param or 'The body'}: {first['msg']}.", param)


async def _refuse_more(_: Request, error: Exception) -> Response:
    return refuse(HTTPStatus.TOO_MANY_REQUESTS, str(error), code="insufficient_quota")


async def _refuse_text(_: Request, error: Exception) -> Response:
    assert isinstance(error, TextError)  # noqa: S101 - for the type checker
    return refuse(HTTPStatus.BAD_REQUEST, error.message, _param_of(error), error.code.value)


def text_error_body(error: TextError) -> dict[str, Any]:
    """Describe an error that ends a stream after its first event."""
    return _body("invalid_request_error", error.message, _param_of(error), error.code.value)


def _param_of(error: TextError) -> str:
    return "voice" if error.code is TextErrorCode.UNKNOWN_STYLE else "input"


def _body(kind: str, message: str, param: str | None, code: str | None) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": param, "code": code}
