"""Errors of Cloud Storage, and how its two APIs put them.

The JSON API names an error by `reason`, the XML API by `code`:
https://cloud.google.com/storage/docs/json_api/v1/status-codes and
https://cloud.google.com/storage/docs/xml-api/reference-status.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar
from xml.sax.saxutils import escape

from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.exceptions import HTTPException


class StorageError(Exception):
    """Invalid argument.

    The first line of each class's docstring is the message of the XML API; `details` names the
    part of the request that is wrong.
    """

    status: ClassVar[int] = 400
    code: ClassVar[str] = "InvalidArgument"
    reason: ClassVar[str] = "invalid"

    def __init_subclass__(
        cls, status: int | None = None, code: str | None = None, reason: str | None = None
    ) -> None:
        cls.status, cls.code = status or cls.status, code or cls.code
        cls.reason = reason or cls.reason

    def __init__(
        self,
        details: str = "",
        *,
        parameter: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(details or self.message)
        self.details = details
        self.parameter = parameter
        self.headers = dict(headers or {})

    @property
    def message(self) -> str:
        return (type(self).__doc__ or "").partition("\n")[0]


class InvalidArgumentError(StorageError):
    """A parameter, header or body of your request cannot be understood."""


class BadDigestError(StorageError, code="BadDigest"):
    """The checksum you specified did not match what we received."""


class IncompleteBodyError(StorageError, code="IncompleteBody"):
    """You did not provide the number of bytes specified by the Content-Length header."""


class EntityTooLargeError(StorageError, code="EntityTooLarge", reason="uploadTooLarge"):
    """Your proposed upload is larger than the allowed maximum object size."""


class EntityTooSmallError(StorageError, code="EntityTooSmall"):
    """Your proposed upload is smaller than the allowed minimum object size."""


class MalformedSecurityHeaderError(StorageError, code="MalformedSecurityHeader"):
    """Your request has a malformed header."""


class ExpiredTokenError(StorageError, code="ExpiredToken", reason="expired"):
    """The provided token has expired."""


class AccessDeniedError(StorageError, status=403, code="AccessDenied", reason="forbidden"):
    """Access denied."""


class SignatureDoesNotMatchError(AccessDeniedError, code="SignatureDoesNotMatch"):
    """The signature is not one of the named account's key for this request."""


class InvalidSecurityError(AccessDeniedError, code="InvalidSecurity"):
    """The provided security credentials are not valid."""


class RequestTimeTooSkewedError(AccessDeniedError, code="RequestTimeTooSkewed"):
    """The difference between the request time and the server's time is too large."""


class NotFoundError(StorageError, status=404, code="NotFound", reason="notFound"):
    """Not found."""


class BucketNotFoundError(NotFoundError, code="NoSuchBucket"):
    """The specified bucket does not exist."""


class ObjectNotFoundError(NotFoundError, code="NoSuchKey"):
    """The specified key does not exist."""


class MethodNotAllowedError(
    StorageError, status=405, code="MethodNotAllowed", reason="methodNotAllowed"
):
    """The specified method is not allowed against this resource."""


class BucketConflictError(
    StorageError, status=409, code="BucketAlreadyOwnedByYou", reason="conflict"
):
    """The request conflicts with the bucket's state."""


class PreconditionFailedError(
    StorageError, status=412, code="PreconditionFailed", reason="conditionNotMet"
):
    """At least one of the pre-conditions you specified did not hold."""


class RangeNotSatisfiableError(
    StorageError, status=416, code="InvalidRange", reason="requestedRangeNotSatisfiable"
):
    """The requested range cannot be satisfied."""


class NotModifiedError(StorageError, status=304, code="NotModified", reason="notModified"):
    """Not modified."""


class NotOfferedError(StorageError, status=501, code="NotImplemented", reason="notImplemented"):
    """The local cloud does not offer this feature of Cloud Storage."""


class BusyError(StorageError, status=503, code="ServiceUnavailable", reason="backendError"):
    """We encountered an internal error. Please try again."""


def json_answer(error: StorageError) -> Response:
    message = error.details or error.message
    entry = {"message": message, "domain": "global", "reason": error.reason}
    if error.parameter is not None:
        entry |= {"locationType": "parameter", "location": error.parameter}
    body = {"error": {"code": error.status, "message": message, "errors": [entry]}}
    return JSONResponse(body, error.status, error.headers)


def xml_answer(error: StorageError) -> Response:
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
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return MethodNotAllowedError(headers=error.headers)
    return NotFoundError("There is no such address on this server.")


def _xml_text(text: str) -> str:
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in text))
