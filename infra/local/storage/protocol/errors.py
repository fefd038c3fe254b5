"""What can go wrong, once, with the words of both APIs.

The JSON API names an error by `reason`, the XML API by `code`; both are those of
https://cloud.google.com/storage/docs/json_api/v1/status-codes and
https://cloud.google.com/storage/docs/xml-api/reference-status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping


class StorageError(Exception):
    """A request that is answered with an error; `details` says what was wrong with what."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "InvalidArgument"
    reason: ClassVar[str] = "invalid"
    message: ClassVar[str] = "Invalid argument."

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


class InvalidArgumentError(StorageError):
    """A parameter, header or body that cannot be understood."""


class BadDigestError(StorageError):
    """The content does not have the checksum that its sender gave."""

    code = "BadDigest"
    message = "The checksum you specified did not match what we received."


class IncompleteBodyError(StorageError):
    """Fewer bytes arrived than were announced."""

    code = "IncompleteBody"
    message = "You did not provide the number of bytes specified by the Content-Length header."


class EntityTooLargeError(StorageError):
    """More bytes than the signed content-length range allows."""

    code = "EntityTooLarge"
    reason = "uploadTooLarge"
    message = "Your proposed upload is larger than the allowed maximum object size."


class EntityTooSmallError(StorageError):
    """Fewer bytes than the signed content-length range asks for."""

    code = "EntityTooSmall"
    message = "Your proposed upload is smaller than the allowed minimum object size."


class MalformedSecurityHeaderError(StorageError):
    """A part of the signature is missing, malformed, or does not fit the request's headers."""

    code = "MalformedSecurityHeader"
    message = "Your request has a malformed header."


class ExpiredTokenError(StorageError):
    """The signed URL's time is over."""

    code = "ExpiredToken"
    reason = "expired"
    message = "The provided token has expired."


class UnauthenticatedError(StorageError):
    """Credentials are needed and none were given."""

    status = 401
    code = "AuthenticationRequired"
    reason = "required"
    message = "Authentication required."


class AccessDeniedError(StorageError):
    """The caller may not do this."""

    status = 403
    code = "AccessDenied"
    reason = "forbidden"
    message = "Access denied."


class SignatureDoesNotMatchError(StorageError):
    """The signature is not one of this request under the named account's key."""

    status = 403
    code = "SignatureDoesNotMatch"
    reason = "forbidden"
    message = (
        "The request signature we calculated does not match the signature you provided. "
        "Check your Google secret key and signing method."
    )


class InvalidSecurityError(StorageError):
    """The signature names an account that is not known."""

    status = 403
    code = "InvalidSecurity"
    reason = "forbidden"
    message = "The provided security credentials are not valid."


class RequestTimeTooSkewedError(StorageError):
    """The signature was made in the future."""

    status = 403
    code = "RequestTimeTooSkewed"
    reason = "forbidden"
    message = "The difference between the request time and the server's time is too large."


class NotFoundError(StorageError):
    """Something that is neither a bucket nor an object is not there."""

    status = 404
    code = "NotFound"
    reason = "notFound"
    message = "Not found."


class BucketNotFoundError(NotFoundError):
    """No bucket has this name."""

    code = "NoSuchBucket"
    message = "The specified bucket does not exist."


class ObjectNotFoundError(NotFoundError):
    """No live object has this name (or this generation)."""

    code = "NoSuchKey"
    message = "The specified key does not exist."


class MethodNotAllowedError(StorageError):
    """The address exists, the method does not."""

    status = 405
    code = "MethodNotAllowed"
    reason = "methodNotAllowed"
    message = "The specified method is not allowed against this resource."


class ConflictError(StorageError):
    """The bucket exists already, or is not empty."""

    status = 409
    code = "BucketAlreadyOwnedByYou"
    reason = "conflict"
    message = "The request conflicts with the bucket's state."


class PreconditionFailedError(StorageError):
    """An if-match condition does not hold."""

    status = 412
    code = "PreconditionFailed"
    reason = "conditionNotMet"
    message = "At least one of the pre-conditions you specified did not hold."


class RangeNotSatisfiableError(StorageError):
    """The range lies behind the object's end."""

    status = 416
    code = "InvalidRange"
    reason = "requestedRangeNotSatisfiable"
    message = "The requested range cannot be satisfied."


class NotModifiedError(StorageError):
    """A read whose if-not-match condition does not hold; answered without a body."""

    status = 304
    code = "NotModified"
    reason = "notModified"
    message = "Not modified."


class NotOfferedError(StorageError):
    """Cloud Storage can do it, the local cloud cannot; better refused than ignored."""

    status = 501
    code = "NotImplemented"
    reason = "notImplemented"
    message = "The local cloud does not offer this feature of Cloud Storage."


class BusyError(StorageError):
    """The upload session is in use by another request; a client retries."""

    status = 503
    code = "ServiceUnavailable"
    reason = "backendError"
    message = "We encountered an internal error. Please try again."
