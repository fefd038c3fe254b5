"""V4 signed URLs (GOOG4-RSA-SHA256 and GOOG4-HMAC-SHA256): what was signed, and by whom.

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

from infra.local.storage import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

MOST_SECONDS = 7 * 24 * 3600
MOST_CLOCK_SKEW = timedelta(minutes=15)

_HMAC_ALGORITHM = "GOOG4-HMAC-SHA256"
_ALGORITHMS = ("GOOG4-RSA-SHA256", _HMAC_ALGORITHM)
_PARAMETERS = tuple(
    f"x-goog-{name}"
    for name in ("algorithm", "credential", "date", "expires", "signedheaders", "signature")
)
_SCOPE_SUFFIX = ("auto", "storage", "goog4_request")
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2})+")
_DATE = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SECONDS = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it came over the wire: path and query undecoded, headers read as Latin-1."""

    method: str
    raw_path: str
    raw_query: str
    headers: Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class HmacKey:
    """An HMAC key of a service account, which signer and server both know."""

    secret: str = field(repr=False)

    def sign(self, scope: str, message: bytes) -> bytes:
        key = f"GOOG4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), hashlib.sha256)
        return hmac.digest(key, message, hashlib.sha256)


@dataclass(frozen=True, slots=True)
class SignedUrl:
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
        """Read the signature's parameters; each must be there once and well-formed."""
        values = signature_parameters(raw_query)
        if values["x-goog-algorithm"] not in _ALGORITHMS:
            known = " or ".join(_ALGORITHMS)
            raise malformed("X-Goog-Algorithm", f"The algorithm must be {known}.")
        email, _, scope = values["x-goog-credential"].partition("/")
        date = values["x-goog-date"]
        if tuple(scope.split("/")) != (date[:8], *_SCOPE_SUFFIX):
            raise malformed(
                "X-Goog-Credential", "Its scope is not DATE/auto/storage/goog4_request."
            )
        if not _HEXADECIMAL.fullmatch(values["x-goog-signature"]):
            raise malformed("X-Goog-Signature", "It must be in hexadecimal.")
        seconds = values["x-goog-expires"]
        if not _SECONDS.fullmatch(seconds) or not 0 < int(seconds) <= MOST_SECONDS:
            raise malformed("X-Goog-Expires", f"It must be a number from 1 to {MOST_SECONDS}.")
        signed_headers = values["x-goog-signedheaders"]
        names = signed_headers.split(";")
        is_lower = signed_headers == signed_headers.lower()
        if names != sorted(set(names)) or not is_lower or "host" not in names:
            raise malformed("X-Goog-SignedHeaders", "Give each name once, sorted, in lower case.")
        return cls(
            algorithm=values["x-goog-algorithm"],
            email=email,
            scope=scope,
            date=date,
            signed_at=parsed_date(date),
            lifetime=timedelta(seconds=int(seconds)),
            signed_headers=tuple(names),
            signature=bytes.fromhex(values["x-goog-signature"]),
        )

    def check_headers(self, headers: Mapping[str, str]) -> None:
        """Require each signed header, and a signature of each `x-goog-` header."""
        for name in self.signed_headers:
            if name not in headers:
                raise malformed(name, "The header was signed, but is not in the request.")
        for name in headers:
            if name.startswith("x-goog-") and name not in self.signed_headers:
                raise malformed(name, "The header is in the request, but was not signed.")

    def check_time(self, now: datetime) -> None:
        if self.signed_at > now + MOST_CLOCK_SKEW:
            raise errors.request_time_too_skewed(f"Signed at {self.date}, in the future.")
        expires_at = self.signed_at + self.lifetime
        if now >= expires_at:
            raise errors.expired_token(f"Expired at: {expires_at.isoformat()}")

    def string_to_sign(self, request: ReceivedRequest, headers: Mapping[str, str]) -> bytes:
        """Return the bytes that the account has signed, if it has signed this request."""
        pairs = sorted(
            (quote(name, safe="~"), quote(value, safe="~"))
            for name, value in query_pairs(request.raw_query)
            if name.lower() != "x-goog-signature"
        )
        lines = [
            request.method,
            request.raw_path,
            "&".join(f"{name}={value}" for name, value in pairs),
            *(f"{name}:{headers[name]}" for name in self.signed_headers),
            "",
            ";".join(self.signed_headers),
            "UNSIGNED-PAYLOAD",
        ]
        digest = hashlib.sha256("\n".join(lines).encode("latin-1")).hexdigest()
        return f"{self.algorithm}\n{self.date}\n{self.scope}\n{digest}".encode()

    def check_signature(self, key: RSAPublicKey | HmacKey, signed: bytes) -> None:
        """Require that the key has signed these bytes, with the algorithm that is its own."""
        is_right = (self.algorithm == _HMAC_ALGORITHM) == isinstance(key, HmacKey)
        if isinstance(key, HmacKey):
            is_right &= hmac.compare_digest(self.signature, key.sign(self.scope, signed))
        else:
            try:
                key.verify(self.signature, signed, PKCS1v15(), SHA256())
            except InvalidSignature:
                is_right = False
        if not is_right:
            raise errors.signature_does_not_match()


def verify(
    request: ReceivedRequest, keys: Mapping[str, RSAPublicKey | HmacKey], now: datetime
) -> dict[str, str]:
    """Check that a known account signed exactly this request, and in time.

    `keys` has the public key of each service account by its e-mail address, and each HMAC key by
    its access id. Returns the values of the signed headers, by name in lower case.
    """
    url = SignedUrl.parse(request.raw_query)
    values = defaultdict(list)
    for name, value in request.headers:
        values[name.lower()].append(" ".join(value.split()))
    headers = {name: ",".join(parts) for name, parts in values.items()}
    url.check_headers(headers)
    url.check_time(now)
    if url.email not in keys:
        raise errors.invalid_security(f"The service account {url.email!r} is not known here.")
    url.check_signature(keys[url.email], url.string_to_sign(request, headers))
    return {name: headers[name] for name in url.signed_headers}


def signature_parameters(raw_query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in query_pairs(raw_query):
        if name.lower() in found:
            raise malformed(name, "The parameter was given twice.")
        if name.lower() in _PARAMETERS:
            found[name.lower()] = value
    if not found:
        raise errors.access_denied("The bucket is private: use a signed URL.")
    for name in _PARAMETERS:
        if not found.get(name):
            raise malformed(name, "The parameter is missing.")
    return found


def query_pairs(raw_query: str) -> list[tuple[str, str]]:
    pairs = (item.partition("=") for item in raw_query.split("&") if item)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs]


def parsed_date(text: str) -> datetime:
    try:
        if _DATE.fullmatch(text):
            return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        pass
    raise malformed("X-Goog-Date", "It must be a date like 20300131T235959Z.")


def malformed(parameter: str, details: str) -> errors.StorageError:
    return errors.malformed_security_header(details, parameter=parameter)
