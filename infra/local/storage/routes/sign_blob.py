"""Signing without a key file: the `signBlob` method of the IAM Credentials API, locally.

Reference:
https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/signBlob
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.responses import JSONResponse
from starlette.routing import Route

from infra.local.storage.protocol.bodies import json_body
from infra.local.storage.protocol.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
)
from infra.local.storage.protocol.names import decoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from starlette.requests import Request
    from starlette.responses import Response


class SignBlobApi:
    """The endpoint; `signers` holds each account's private key by its e-mail address.

    Any bearer token is taken for one of a caller who may sign: nobody else is on this machine.
    """

    def __init__(self, signers: Mapping[str, RSAPrivateKey]) -> None:
        self._signers = signers

    def routes(self) -> list[Route]:
        """The endpoint, below `/v1`."""
        return [
            Route(
                "/projects/-/serviceAccounts/{email_and_method}", self.sign_blob, methods=["POST"]
            )
        ]

    async def sign_blob(self, request: Request) -> Response:
        """Sign bytes: `{"payload": base64}` gives `{"keyId", "signedBlob": base64}`."""
        email, _, method = decoded(request.path_params["email_and_method"]).rpartition(":")
        if method != "signBlob":
            raise NotFoundError(f"There is no method {method!r} here.")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise UnauthenticatedError("Send an access token: Authorization: Bearer TOKEN.")
        if email not in self._signers:
            raise NotFoundError(f"The service account {email!r} is not known here.")
        key = self._signers[email]
        signature = key.sign(_payload(await json_body(request)), PKCS1v15(), SHA256())
        return JSONResponse(
            {"keyId": _key_id(key), "signedBlob": base64.b64encode(signature).decode()}
        )


def _payload(body: dict[str, object]) -> bytes:
    payload = body.get("payload")
    try:
        return base64.b64decode(payload if isinstance(payload, str) else "!", validate=True)
    except binascii.Error:
        raise InvalidArgumentError("payload must be bytes in base64.") from None


def _key_id(key: RSAPrivateKey) -> str:
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public).hexdigest()[:40]
