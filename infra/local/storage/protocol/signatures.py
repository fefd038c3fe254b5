"""Verification of V4 signed URLs (GOOG4-RSA-SHA256 and GOOG4-HMAC-SHA256), without I/O.

Sources: https://cloud.google.com/storage/docs/authentication/signatures and
https://cloud.google.com/storage/docs/authentication/canonical-requests
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote_plus

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from infra.local.storage.protocol.errors import (
    AccessDeniedError,
    ExpiredTokenError,
    InvalidSecurityError,
    MalformedSecurityHeaderError,
    RequestTimeTooSkewedError,
    SignatureDoesNotMatchError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

RSA_ALGORITHM = "GOOG4-RSA-SHA256"
HMAC_ALGORITHM = "GOOG4-HMAC-SHA256"
ALGORITHMS = (RSA_ALGORITHM, HMAC_ALGORITHM)
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
MAX_LIFETIME = timedelta(days=7)
MAX_CLOCK_SKEW = timedelta(minutes=15)

_PARAMETERS = (
    "x-goog-algorithm",
    "x-goog-credential",
    "x-goog-date",
    "x-goog-expires",
    "x-goog-signedheaders",
    "x-goog-signature",
)
_SCOPE_SUFFIX = ("auto", "storage", "goog4_request")
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2})+")
_DATE = re.compile(r"\d{8}T\d{6}Z")


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it came over the wire: path and query undecoded, headers read as Latin-1."""

    method: str
    raw_path: str
    raw_query: str
    headers: Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class HmacKey:
    """An HMAC key of a service account.

    Attributes:
        secret: what signer and server both know.
    """

    secret: str = field(repr=False)

    def sign(self, scope: str, message: bytes) -> bytes:
        """Return a message's signature by the key that the parts of the scope derive."""
        key = f"GOOG4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), hashlib.sha256)
        return hmac.digest(key, message, hashlib.sha256)


@dataclass(frozen=True, slots=True)
class SignedUrl:
    """The signature in a signed URL's query."""

    algorithm: str
    email: str
    scope: str
    date: str
    signed_at: datetime
    lifetime: timedelta
    signed_headers: tuple[str, ...]
    signature: bytes

    @classmethod
    def parse(cls, raw_query: str) -> Self:
        """Read the signature's parameters.

        Raises:
            AccessDeniedError: the URL is not signed at all.
            MalformedSecurityHeaderError: a parameter is missing, repeated or malformed.
        """
        values = _signature_parameters(raw_query)
        if values["x-goog-algorithm"] not in ALGORITHMS:
            known = " or ".join(ALGORITHMS)
            raise _malformed("X-Goog-Algorithm", f"The algorithm must be {known}.")
        email, _, scope = values["x-goog-credential"].partition("/")
        date = values["x-goog-date"]
        if tuple(scope.split("/")) != (date[:8], *_SCOPE_SUFFIX):
            raise _malformed(
                "X-Goog-Credential", "The scope must be DATE/auto/storage/goog4_request."
            )
        return cls(
            algorithm=values["x-goog-algorithm"],
            email=email,
            scope=scope,
            date=date,
            signed_at=_parsed_date(date),
            lifetime=_parsed_lifetime(values["x-goog-expires"]),
            signed_headers=_parsed_signed_headers(values["x-goog-signedheaders"]),
            signature=_parsed_signature(values["x-goog-signature"]),
        )


def verify(
    request: ReceivedRequest, keys: Mapping[str, RSAPublicKey | HmacKey], now: datetime
) -> dict[str, str]:
    """Check that a request is exactly what a known account signed, and in time.

    Args:
        request: what was received.
        keys: each service account's public key, by its e-mail address, and each HMAC key, by its
            access id.
        now: the current time, with a time zone.

    Returns:
        The values of the signed headers, by name in lower case.

    Raises:
        AccessDeniedError: the request carries no signature.
        MalformedSecurityHeaderError: the signature is malformed, a signed header is missing, or
            the request carries an `x-goog-` header that was not signed.
        ExpiredTokenError: the URL's time is over.
        RequestTimeTooSkewedError: the URL was signed in the future.
        InvalidSecurityError: the account is unknown.
        SignatureDoesNotMatchError: the signature is not the account's for this request.
    """
    url = SignedUrl.parse(request.raw_query)
    headers = _canonical_header_values(request.headers)
    _check_header_coverage(url, headers)
    _check_time(url, now)
    if url.email not in keys:
        raise InvalidSecurityError(f"The service account {url.email!r} is not known here.")
    signed = {name: headers[name] for name in url.signed_headers}
    try:
        _check_signature(url, keys[url.email], _string_to_sign(url, request, signed))
    except InvalidSignature:
        raise SignatureDoesNotMatchError(
            "Signed were method, path, query and headers: none of them may be altered."
        ) from None
    return signed


def _check_signature(url: SignedUrl, key: RSAPublicKey | HmacKey, signed: bytes) -> None:
    """Raise InvalidSignature unless the key has signed that, with the algorithm that is its own."""
    is_hmac = url.algorithm == HMAC_ALGORITHM
    if is_hmac != isinstance(key, HmacKey):
        raise InvalidSignature
    if not isinstance(key, HmacKey):
        key.verify(url.signature, signed, PKCS1v15(), SHA256())
    elif not hmac.compare_digest(url.signature, key.sign(url.scope, signed)):
        raise InvalidSignature


def _signature_parameters(raw_query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _query_pairs(raw_query):
        if name.lower() not in _PARAMETERS:
            continue
        if name.lower() in found:
            raise _malformed(name, "The parameter was given twice.")
        found[name.lower()] = value
    if not found:
        raise AccessDeniedError(
            "Anonymous caller does not have access to the Google Cloud Storage object. "
            "The bucket is private: use a signed URL."
        )
    for name in _PARAMETERS:
        if not found.get(name):
            raise _malformed(name, "The parameter is missing.")
    return found


def _query_pairs(raw_query: str) -> list[tuple[str, str]]:
    pairs = (item.partition("=") for item in raw_query.split("&") if item)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs]


def _parsed_date(text: str) -> datetime:
    if not _DATE.fullmatch(text):
        raise _malformed("X-Goog-Date", "The date must look like 20300131T235959Z.")
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise _malformed("X-Goog-Date", f"{text} is not a date.") from None


def _parsed_lifetime(text: str) -> timedelta:
    limit = int(MAX_LIFETIME.total_seconds())
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(limit))):
        raise _malformed("X-Goog-Expires", f"It must be a number from 1 to {limit}.")
    if not 0 < int(text) <= limit:
        raise _malformed("X-Goog-Expires", f"It must be a number from 1 to {limit}.")
    return timedelta(seconds=int(text))


def _parsed_signed_headers(text: str) -> tuple[str, ...]:
    names = text.split(";")
    if names != sorted(set(names)) or text != text.lower():
        raise _malformed(
            "X-Goog-SignedHeaders", "The names must be in lower case, sorted, and given once."
        )
    if "host" not in names:
        raise _malformed("X-Goog-SignedHeaders", "The host header must be signed.")
    return tuple(names)


def _parsed_signature(text: str) -> bytes:
    if not _HEXADECIMAL.fullmatch(text):
        raise _malformed("X-Goog-Signature", "It must be in hexadecimal.")
    return bytes.fromhex(text)


def _canonical_header_values(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    values = defaultdict(list)
    for name, value in headers:
        values[name.lower()].append(" ".join(value.split()))
    return {name: ",".join(parts) for name, parts in values.items()}


def _check_header_coverage(url: SignedUrl, headers: Mapping[str, str]) -> None:
    for name in url.signed_headers:
        if name not in headers:
            raise _malformed(name, "Header was included in signedheaders, but not in the request.")
    for name in headers:
        if name.startswith("x-goog-") and name not in url.signed_headers:
            raise _malformed(name, "Header was included in the request, but not in signedheaders.")


def _check_time(url: SignedUrl, now: datetime) -> None:
    if url.signed_at > now + MAX_CLOCK_SKEW:
        raise RequestTimeTooSkewedError(f"The URL was signed at {url.date}, in the future.")
    expires_at = url.signed_at + url.lifetime
    if now >= expires_at:
        raise ExpiredTokenError(f"Request signature expired at: {expires_at.isoformat()}")


def _string_to_sign(url: SignedUrl, request: ReceivedRequest, signed: Mapping[str, str]) -> bytes:
    canonical_request = "\n".join(
        [
            request.method,
            request.raw_path,
            _canonical_query(request.raw_query),
            *(f"{name}:{signed[name]}" for name in url.signed_headers),
            "",
            ";".join(url.signed_headers),
            signed.get("x-goog-content-sha256", UNSIGNED_PAYLOAD),
        ]
    )
    digest = hashlib.sha256(canonical_request.encode("latin-1")).hexdigest()
    return f"{url.algorithm}\n{url.date}\n{url.scope}\n{digest}".encode()


def _canonical_query(raw_query: str) -> str:
    encoded = (
        (quote(name, safe="~"), quote(value, safe="~"))
        for name, value in _query_pairs(raw_query)
        if name.lower() != "x-goog-signature"
    )
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))


def _malformed(parameter: str, details: str) -> MalformedSecurityHeaderError:
    return MalformedSecurityHeaderError(details, parameter=parameter)
