"""Signing addresses with an HMAC key of a service account: without a call, and without its own key.

The client library signs with `GOOG4-RSA-SHA256` alone, so the canonical request is made here.
Sources: https://cloud.google.com/storage/docs/authentication/signatures and
https://cloud.google.com/storage/docs/authentication/canonical-requests
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.storage import Blob


ALGORITHM: Final = "GOOG4-HMAC-SHA256"
_SCOPE: Final = ("auto", "storage", "goog4_request")


@dataclass(frozen=True, slots=True)
class HmacSigner:
    """Signs addresses with an HMAC key."""

    access_id: str
    secret: str = field(repr=False)
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC), repr=False)

    def sign_url(
        self,
        blob: Blob,
        method: str,
        expires_at: datetime,
        *,
        headers: dict[str, str] | None = None,
        response_disposition: str | None = None,
    ) -> str:
        """Return the address for one request about an object; makes no request itself.

        Args:
            headers: that the request must have, beside `Host`.
        """
        endpoint = blob.client.api_endpoint.rstrip("/")
        path = f"/{blob.bucket.name}/{quote(blob.name, safe='/~')}"
        signed_at = self.now()
        date = signed_at.strftime("%Y%m%dT%H%M%SZ")
        scope = "/".join((date[:8], *_SCOPE))
        signed = {name.lower(): value for name, value in (headers or {}).items()}
        signed["host"] = urlsplit(endpoint).netloc
        query = {
            "X-Goog-Algorithm": ALGORITHM,
            "X-Goog-Credential": f"{self.access_id}/{scope}",
            "X-Goog-Date": date,
            "X-Goog-Expires": str(int((expires_at - signed_at).total_seconds())),
            "X-Goog-SignedHeaders": ";".join(sorted(signed)),
        }
        if response_disposition is not None:
            query["response-content-disposition"] = response_disposition
        canonical_query = "&".join(
            f"{_quoted(name)}={_quoted(value)}" for name, value in sorted(query.items())
        )
        request = _canonical_request(method, path, canonical_query, signed)
        digest = hashlib.sha256(request.encode()).hexdigest()
        signature = signature_of(self.secret, scope, f"{ALGORITHM}\n{date}\n{scope}\n{digest}")
        return f"{endpoint}{path}?{canonical_query}&X-Goog-Signature={signature.hex()}"


def signature_of(secret: str, scope: str, string_to_sign: str) -> bytes:
    """Return the signature of a string."""
    key = f"GOOG4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), hashlib.sha256)
    return hmac.digest(key, string_to_sign.encode(), hashlib.sha256)


def _canonical_request(
    method: str, path: str, canonical_query: str, signed: Mapping[str, Any]
) -> str:
    names = sorted(signed)
    lines = [f"{name}:{' '.join(str(signed[name]).split())}" for name in names]
    return "\n".join(
        (method, path, canonical_query, *lines, "", ";".join(names), "UNSIGNED-PAYLOAD")
    )


def _quoted(text: str) -> str:
    return quote(text, safe="~")


ADDRESS: Final = "https://cloudkms.googleapis.com/v1"


class KeyManagementError(Exception):
    """Cloud KMS did not sign."""


class KmsKey:
    """One version of an asymmetric key (EC_SIGN_P256_SHA256)."""

    def __init__(
        self, name: str, session: AuthorizedSession, seconds: float, address: str = ADDRESS
    ) -> None:
        self._url = f"{address}/{name}:asymmetricSign"
        self._session = session
        self._seconds = seconds

    def sign(self, data: bytes) -> bytes:
        """Return the ECDSA signature of data's SHA-256, in DER.

        Raises:
            KeyManagementError: Cloud KMS refuses, or does not answer in time.
        """
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        try:
            answer = self._session.post(
                self._url, json={"digest": {"sha256": digest}}, timeout=self._seconds
            )
            answer.raise_for_status()
            return base64.b64decode(answer.json()["signature"], validate=True)
        except Exception as error:
            raise KeyManagementError(f"Cloud KMS did not sign: {error!r}") from error
