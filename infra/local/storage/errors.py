"""Errors of Cloud Storage, and how its two APIs put them.

The JSON API names an error by `reason`, the XML API by `code`:
https://cloud.google.com/storage/docs/json_api/v1/status-codes and
https://cloud.google.com/storage/docs/xml-api/reference-status.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.exceptions import HTTPException


class StorageError(Exception):
    """An error of Cloud Storage; `details` and `parameter` name what is wrong in the request."""

    def __init__(
        self,
        status: int,
        code: str,
        reason: str,
        message: str,
        details: str = "",
        *,
        parameter: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code}: {details or message}")
        self.status, self.code, self.reason, self.message = status, code, reason, message
        self.details = details
        self.parameter = parameter
        self.headers = dict(headers or {})


def kind(line: str, message: str) -> Callable[..., StorageError]:
    """Return what makes errors of a kind, given its status, its code and its reason."""
    status, code, reason = line.split()
    return partial(StorageError, int(status), code, reason, message)


invalid_argument = kind(
    "400 InvalidArgument invalid",
    "A parameter, header or body of your request cannot be understood.",
)
bad_digest = kind(
    "400 BadDigest invalid", "The checksum you specified did not match what we received."
)
incomplete_body = kind(
    "400 IncompleteBody invalid",
    "You did not provide the number of bytes specified by the Content-Length header.",
)
entity_too_large = kind(
    "400 EntityTooLarge uploadTooLarge",
    "Your proposed upload is larger than the allowed maximum object size.",
)
entity_too_small = kind(
    "400 EntityTooSmall invalid",
    "Your proposed upload is smaller than the allowed minimum object size.",
)
malformed_security_header = kind(
    "400 MalformedSecurityHeader invalid", "Your request has a malformed header."
)
expired_token = kind("400 ExpiredToken expired", "The provided token has expired.")
access_denied = kind("403 AccessDenied forbidden", "Access denied.")
signature_does_not_match = kind(
    "403 SignatureDoesNotMatch forbidden",
    "The signature is not one of the named account's key for this request.",
)
invalid_security = kind(
    "403 InvalidSecurity forbidden", "The provided security credentials are not valid."
)
request_time_too_skewed = kind(
    "403 RequestTimeTooSkewed forbidden",
    "The difference between the request time and the server's time is too large.",
)
not_found = kind("404 NotFound notFound", "Not found.")
bucket_not_found = kind("404 NoSuchBucket notFound", "The specified bucket does not exist.")
object_not_found = kind("404 NoSuchKey notFound", "The specified key does not exist.")
method_not_allowed = kind(
    "405 MethodNotAllowed methodNotAllowed",
    "The specified method is not allowed against this resource.",
)
bucket_conflict = kind(
    "409 BucketAlreadyOwnedByYou conflict", "The request conflicts with the bucket's state."
)
precondition_failed = kind(
    "412 PreconditionFailed conditionNotMet",
    "At least one of the pre-conditions you specified did not hold.",
)
range_not_satisfiable = kind(
    "416 InvalidRange requestedRangeNotSatisfiable", "The requested range cannot be satisfied."
)
not_modified = kind("304 NotModified notModified", "Not modified.")
not_offered = kind(
    "501 NotImplemented notImplemented",
    "The local cloud does not offer this feature of Cloud Storage.",
)
busy = kind(
    "503 ServiceUnavailable backendError", "We encountered an internal error. Please try again."
)


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
    printable = {
        tag: "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
        for tag, text in parts.items()
        if text
    }
    inner = "".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in printable.items())
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error>{inner}</Error>"
    return Response(body, error.status, error.headers, "application/xml; charset=UTF-8")


def routing_error(error: HTTPException) -> StorageError:
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return method_not_allowed(headers=error.headers)
    return not_found("There is no such address on this server.")
