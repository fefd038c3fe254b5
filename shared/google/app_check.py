"""Verifying tokens of Firebase App Check, which prove that a request comes from a known page.

The checks are the same as in Google's server SDK (firebase-admin):
https://firebase.google.com/docs/app-check/custom-resource-backend
"""

from __future__ import annotations

import base64
import json
import math
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from shared.google.tokens import Certificates, verified_claims
from shared.ports.tokens import TokenRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from shared.google.tokens import CertificateCache

APP_CHECK_KEYS: Final = "https://firebaseappcheck.googleapis.com/v1/jwks"
APP_CHECK_ISSUER: Final = "https://firebaseappcheck.googleapis.com/"


class AppCheckTokenVerifier:
    """A `TokenVerifier` for App Check tokens, which come in a header of their own.

    Args:
        keys: App Check's public keys.
        project_id: the project in which the pages are registered.
    """

    def __init__(self, keys: CertificateCache, *, project_id: str) -> None:
        self._keys = keys
        self._project_id = project_id

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        """Return the token's claims; `sub` is the app's id.

        Args:
            authorization: the header `X-Firebase-AppCheck`: the token, without a scheme.

        Raises:
            TokenRefusedError: the header is missing or proves nothing.
            CertificatesUnavailableError: the token could not be checked now.
        """
        if not authorization:
            raise TokenRefusedError("the request has no header X-Firebase-AppCheck")
        claims = await verified_claims(authorization, self._keys, None)
        if not str(claims.get("iss", "")).startswith(APP_CHECK_ISSUER):
            raise TokenRefusedError("the token was not issued by App Check")
        audience = claims.get("aud")
        if not isinstance(audience, list) or f"projects/{self._project_id}" not in audience:
            raise TokenRefusedError(f"the token was not issued for project {self._project_id}")
        if not claims.get("sub"):
            raise TokenRefusedError("the token names no app")
        return claims


def keys_of_set(answer: Any) -> Mapping[str, str]:
    """Return the RSA keys of a JSON Web Key Set (RFC 7517) by key id (PEM).

    Raises:
        KeyError: a key lacks a part.
        TypeError: it is no key set.
        ValueError: a key's numbers cannot be read.
    """
    return {key["kid"]: _pem(key) for key in answer["keys"] if key["kty"] == "RSA"}


def read_own_key(path: Path) -> Certificates:
    """Return the public key of a service account's key file, for the local cloud's tokens."""
    fields = json.loads(path.read_text())
    private = load_pem_private_key(fields["private_key"].encode(), None)
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return Certificates({fields["private_key_id"]: public.decode()}, math.inf)


def _pem(key: Mapping[str, str]) -> str:
    public = RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
