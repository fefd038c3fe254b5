"""The key that signs URLs in the local cloud; in production IAM signs, without a key file."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt
from google.auth.crypt import RSASigner

from infra.local.configuration import names
from shared.google.app_check import APP_CHECK_ISSUER

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

KEY_ID: Final = "local"
SECONDS_OF_AN_HOUR: Final = 3_600
SECONDS_OF_A_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A signing service account of the local cloud, with its key."""

    email: str
    private_key: RSAPrivateKey

    def app_check_token(self, project_id: str) -> str:
        """Return a token like those of Firebase App Check, for the local cloud's own page.

        It is valid for a day.
        """
        issuer, audience = f"{APP_CHECK_ISSUER}local", [f"projects/{project_id}"]
        return self._token({"iss": issuer, "aud": audience, "sub": "local"}, SECONDS_OF_A_DAY)

    def visitor_token(self, project_id: str, uid: str, **claims: object) -> str:
        """Return a token like those of Firebase Authentication; it is valid for an hour.

        Args:
            project_id: the project of the accounts.
            uid: whose it is.
            claims: what it says besides.
        """
        issuer = f"https://securetoken.google.com/{project_id}"
        said = {"iss": issuer, "aud": project_id, "sub": uid, "user_id": uid}
        return self._token({**claims, **said}, SECONDS_OF_AN_HOUR)

    def _token(self, claims: dict[str, object], seconds: int) -> str:
        now = int(time.time())
        signer = RSASigner(self.private_key, KEY_ID)
        return str(jwt.encode(signer, {**claims, "iat": now, "exp": now + seconds}).decode())

    def write(self, path: Path) -> None:
        """Write it as a service account's key file that only its owner can read."""
        pem = self.private_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        fields = {
            "type": "service_account",
            "project_id": names.PROJECT_ID,
            "private_key_id": KEY_ID,
            "private_key": pem.decode(),
            "client_email": self.email,
            "token_uri": "https://oauth2.invalid/token",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(fields))


def make_key() -> SigningKey:
    """Make a new key."""
    return SigningKey(names.SIGNER, rsa.generate_private_key(public_exponent=65537, key_size=2048))


def read_key(path: Path) -> SigningKey:
    """Read a key that `SigningKey.write` wrote."""
    fields = json.loads(path.read_text())
    private_key = serialization.load_pem_private_key(fields["private_key"].encode(), None)
    if not isinstance(private_key, rsa.RSAPrivateKey):
        raise TypeError(f"{path} does not hold an RSA key")
    return SigningKey(fields["client_email"], private_key)
