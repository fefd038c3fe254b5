"""Signatures by a key in Cloud KMS, which never leaves it."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

ADDRESS: Final = "https://cloudkms.googleapis.com/v1"


class KeyManagementError(Exception):
    """Cloud KMS did not sign."""


class KmsKey:
    """One version of an asymmetric key (EC_SIGN_P256_SHA256).

    Args:
        name: its resource name, with the version.
        session: sends requests with the identity of the service account.
        seconds: how long an answer may take.
        address: of Cloud KMS.
    """

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
