"""Identity tokens signed with keys made here, and the certificates that go with them."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from google.auth import jwt
from google.auth.crypt import RSASigner

from shared.google.tokens import Certificates

if TYPE_CHECKING:
    from collections.abc import Mapping

AUDIENCE = "https://convert.example/push"
EMAIL = "pusher@project.iam.gserviceaccount.com"


@dataclass
class Issuer:
    """An issuer that signs tokens with its own key."""

    key_id: str = "key-1"

    @cached_property
    def key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @cached_property
    def pem(self) -> str:
        form = (Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        return self.key.private_bytes(*form).decode()

    @cached_property
    def certificate(self) -> str:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.key_id)])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(self.key_id)]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return made.public_bytes(Encoding.PEM).decode()

    def sign(self, claims: Mapping[str, Any]) -> str:
        signer = RSASigner.from_string(self.pem, self.key_id)
        return str(jwt.encode(signer, dict(claims)).decode())


class CertificateServer:
    def __init__(self, *issuers: Issuer, lifetime_seconds: float = 3600.0) -> None:
        self.by_key_id = {issuer.key_id: issuer.certificate for issuer in issuers}
        self.lifetime_seconds = lifetime_seconds
        self.fetches = 0

    def fetch(self) -> Certificates:
        self.fetches += 1
        return Certificates(dict(self.by_key_id), self.lifetime_seconds)


def push_claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of Pub/Sub's token; a change to None leaves a claim out."""
    now = int(time.time())
    claims = {
        "iss": "https://accounts.google.com",
        "aud": AUDIENCE,
        "email": EMAIL,
        "email_verified": True,
        "sub": "1234",
        "iat": now,
        "exp": now + 3600,
    }
    return {name: value for name, value in (claims | changes).items() if value is not None}


def unsigned(claims: Mapping[str, Any], key_id: str = "key-1") -> str:
    """Return a token of algorithm none, which needs no key."""

    def part(value: Mapping[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none', 'typ': 'JWT', 'kid': key_id})}.{part(claims)}."
