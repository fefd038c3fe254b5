"""The key that signs URLs in the local cloud; in production IAM signs, without a key file."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from google.auth import jwt
from google.auth.crypt import RSASigner

from infra.local.configuration import names
from shared.google.tokens import APP_CHECK_ISSUER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


KEY_ID: Final = "local"
KEY_FILE: Final = "signing-key.json"
_PRIVATE_FORM: Final = (
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
)
SECONDS_OF_AN_HOUR: Final = 3_600
SECONDS_OF_A_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class SigningKey:
    email: str
    private_key: RSAPrivateKey

    def app_check_token(self, project_id: str) -> str:
        """Return a token like those of Firebase App Check, valid for a day."""
        issuer, audience = f"{APP_CHECK_ISSUER}local", [f"projects/{project_id}"]
        return self._token({"iss": issuer, "aud": audience, "sub": "local"}, SECONDS_OF_A_DAY)

    def visitor_token(self, project_id: str, uid: str, **claims: object) -> str:
        """Return a token like those of Firebase Authentication; it is valid for an hour."""
        issuer = f"https://securetoken.google.com/{project_id}"
        said = {"iss": issuer, "aud": project_id, "sub": uid, "user_id": uid}
        return self._token({**claims, **said}, SECONDS_OF_AN_HOUR)

    def _token(self, claims: dict[str, object], seconds: int) -> str:
        now = int(time.time())
        signer = RSASigner(self.private_key, KEY_ID)
        return str(jwt.encode(signer, {**claims, "iat": now, "exp": now + seconds}).decode())

    def write(self, path: Path) -> None:
        """Write it as a service account's key file that only its owner can read."""
        pem = self.private_key.private_bytes(*_PRIVATE_FORM)
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
    return SigningKey(names.SIGNER, rsa.generate_private_key(public_exponent=65537, key_size=2048))


def read_key(path: Path) -> SigningKey:
    fields = json.loads(path.read_text())
    private_key = serialization.load_pem_private_key(fields["private_key"].encode(), None)
    if not isinstance(private_key, rsa.RSAPrivateKey):
        raise TypeError(f"{path} does not hold an RSA key")
    return SigningKey(fields["client_email"], private_key)


WATERMARK_KEY: Final = "watermark.key"
AUTHORITY: Final = "authority.pem"
CERTIFICATES: Final = "certificates.pem"
PRIVATE_KEY: Final = "signer.key"

_NAMES: Final = (WATERMARK_KEY, AUTHORITY, CERTIFICATES, PRIVATE_KEY)
_LIFETIME: Final = timedelta(days=3650)
_ORGANIZATION: Final = "A local cloud of Voice Avatar, which nobody trusts"


def provenance_environment(folder: Path) -> dict[str, str]:
    """Return the settings that mark and sign results; their keys are made if there are none."""
    if not folder.is_dir():
        keep(folder, make_provenance_keys())
    made = {name: (folder / name).read_text() for name in _NAMES}
    return {
        "WATERMARK_KEYS": made[WATERMARK_KEY],
        "C2PA_CERTIFICATES": made[CERTIFICATES],
        "C2PA_KEY": made[PRIVATE_KEY],
    }


def make_provenance_keys() -> dict[str, str]:
    """Make a watermark key, and a signer whose certificate an authority of its own has issued.

    The profile is that of the C2PA specification: version 3, P-256, digital signatures, and a
    purpose, here e-mail protection.
    """
    now = datetime.now(UTC)
    authority, signer = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION)
    issuer, subject = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common), organization])
        for common in ("Local authority", "Local signer")
    )

    def begin(name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + _LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
                critical=False,
            )
        )

    root = begin(issuer, authority.public_key())
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    root = root.add_extension(key_usage(signs_certificates=True), critical=True)
    leaf = begin(subject, signer.public_key())
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    leaf = leaf.add_extension(key_usage(signs_certificates=False), critical=True)
    purposes = [ExtendedKeyUsageOID.EMAIL_PROTECTION]
    leaf = leaf.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    root_pem, leaf_pem = (
        each.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
        for each in (root, leaf)
    )
    private = signer.private_bytes(*_PRIVATE_FORM)
    return {
        WATERMARK_KEY: secrets.token_hex(32),
        AUTHORITY: root_pem,
        CERTIFICATES: leaf_pem + root_pem,
        PRIVATE_KEY: private.decode(),
    }


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def keep(folder: Path, made: Mapping[str, str]) -> None:
    """Write all of them at once, unless another process was first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    for name, content in made.items():
        path = draft / name
        path.touch(mode=0o600)
        path.write_text(content)
    try:
        # Renaming fails if the folder is there, because it is not empty.
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft)
