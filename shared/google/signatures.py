"""Signatures with an HMAC key of a service account, and with a key in Cloud KMS.

An HMAC key signs without a request and without the account's own key. The client library signs with
`GOOG4-RSA-SHA256` alone, so the canonical request is built here. Sources:
https://cloud.google.com/storage/docs/authentication/signatures and
https://cloud.google.com/storage/docs/authentication/canonical-requests
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.storage import Blob


ALGORITHM: Final = "GOOG4-HMAC-SHA256"
_SCOPE: Final = ("auto", "storage", "goog4_request")


@dataclass(frozen=True, slots=True)
class HmacSigner:
    """Signs the address of one request about an object with an HMAC key."""

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
        endpoint = blob.client.api_endpoint.rstrip("/")
        path = f"/{blob.bucket.name}/{quote(blob.name, safe='/~')}"
        signed_at = self.now()
        date = signed_at.strftime("%Y%m%dT%H%M%SZ")
        scope = "/".join((date[:8], *_SCOPE))
        signed = {name.lower(): value for name, value in (headers or {}).items()}
        signed["host"] = urlsplit(endpoint).netloc
        names = sorted(signed)
        query = {
            "X-Goog-Algorithm": ALGORITHM,
            "X-Goog-Credential": f"{self.access_id}/{scope}",
            "X-Goog-Date": date,
            "X-Goog-Expires": str(int((expires_at - signed_at).total_seconds())),
            "X-Goog-SignedHeaders": ";".join(names),
        }
        if response_disposition is not None:
            query["response-content-disposition"] = response_disposition
        canonical_query = urlencode(sorted(query.items()), safe="~", quote_via=quote)
        lines = (f"{name}:{' '.join(str(signed[name]).split())}" for name in names)
        request = (method, path, canonical_query, *lines, "", ";".join(names), "UNSIGNED-PAYLOAD")
        digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
        signature = signature_of(self.secret, scope, f"{ALGORITHM}\n{date}\n{scope}\n{digest}")
        return f"{endpoint}{path}?{canonical_query}&X-Goog-Signature={signature.hex()}"


def signature_of(secret: str, scope: str, string_to_sign: str) -> bytes:
    """Return the signature of a string with the key derived for a scope."""
    key = f"GOOG4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), hashlib.sha256)
    return hmac.digest(key, string_to_sign.encode(), hashlib.sha256)


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
        """Return the ECDSA signature of the data's SHA-256, in DER."""
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        try:
            answer = self._session.post(
                self._url, json={"digest": {"sha256": digest}}, timeout=self._seconds
            )
            answer.raise_for_status()
            return base64.b64decode(answer.json()["signature"], validate=True)
        except Exception as error:
            raise KeyManagementError(f"Cloud KMS did not sign: {error!r}") from error
