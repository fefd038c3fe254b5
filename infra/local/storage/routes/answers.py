"""Errors as the two APIs put them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from starlette.responses import JSONResponse, Response

from infra.local.storage.protocol.errors import (
    MethodNotAllowedError,
    NotFoundError,
    NotModifiedError,
    StorageError,
)

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException

_METHOD_NOT_ALLOWED = 405


def json_answer(error: StorageError) -> Response:
    """An error of the JSON API."""
    if isinstance(error, NotModifiedError):
        return Response(status_code=error.status)
    message = error.details or error.message
    entry = {"message": message, "domain": "global", "reason": error.reason}
    if error.parameter is not None:
        entry |= {"locationType": "parameter", "location": error.parameter}
    body = {"error": {"code": error.status, "message": message, "errors": [entry]}}
    return JSONResponse(body, error.status, error.headers)


def xml_answer(error: StorageError) -> Response:
    """An error of the XML API."""
    if isinstance(error, NotModifiedError):
        return Response(status_code=error.status)
    parts = {
        "Code": error.code,
        "Message": error.message,
        "ParameterName": error.parameter,
        "Details": error.details,
    }
    inner = "".join(f"<{tag}>{_xml_text(text)}</{tag}>" for tag, text in parts.items() if text)
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error>{inner}</Error>"
    return Response(body, error.status, error.headers, "application/xml; charset=UTF-8")


def routing_error(error: HTTPException) -> StorageError:
    """The router's refusal, as an error of this server."""
    if error.status_code == _METHOD_NOT_ALLOWED:
        return MethodNotAllowedError(headers=error.headers)
    return NotFoundError("There is no such address on this server.")


def _xml_text(text: str) -> str:
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in text))
