"""The keys that say where results come from: made at the first start of a local cloud, and kept.

Nobody trusts the certificate but whoever is told to. In production an operator brings one.
"""

from __future__ import annotations

import secrets
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Mapping

WATERMARK_KEY: Final = "watermark.key"
AUTHORITY: Final = "authority.pem"
CERTIFICATES: Final = "certificates.pem"
PRIVATE_KEY: Final = "signer.key"

_NAMES: Final = (WATERMARK_KEY, AUTHORITY, CERTIFICATES, PRIVATE_KEY)
_LIFETIME: Final = timedelta(days=3650)
_ORGANIZATION: Final = "A local cloud of Voice Avatar, which nobody trusts"


def origin_environment(folder: Path) -> dict[str, str]:
    """Return the settings that mark and sign results; their keys are made if there are none.

    Args:
        folder: where they are kept.
    """
    made = _read(folder) or _keep(folder, make_origin_keys())
    return {
        "WATERMARK_KEYS": made[WATERMARK_KEY],
        "C2PA_CERTIFICATES": made[CERTIFICATES],
        "C2PA_KEY": made[PRIVATE_KEY],
    }


def make_origin_keys() -> dict[str, str]:
    """Make a watermark key, and a signer whose certificate an authority of its own has issued.

    The profile is that of the C2PA specification: version 3, P-256, digital signatures, and a
    purpose, here e-mail protection.
    """
    now = datetime.now(UTC)
    authority, signer = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = _name("Local authority"), _name("Local signer")

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
    root = root.add_extension(_key_usage(signs_certificates=True), critical=True)
    leaf = begin(subject, signer.public_key())
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    leaf = leaf.add_extension(_key_usage(signs_certificates=False), critical=True)
    purposes = [ExtendedKeyUsageOID.EMAIL_PROTECTION]
    leaf = leaf.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    root_pem, leaf_pem = (
        each.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
        for each in (root, leaf)
    )
    private = signer.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return {
        WATERMARK_KEY: secrets.token_hex(32),
        AUTHORITY: root_pem,
        CERTIFICATES: leaf_pem + root_pem,
        PRIVATE_KEY: private.decode(),
    }


def _name(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, common),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
        ]
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
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


def _read(folder: Path) -> Mapping[str, str] | None:
    if not folder.is_dir():
        return None
    return {name: (folder / name).read_text() for name in _NAMES}


def _keep(folder: Path, made: Mapping[str, str]) -> Mapping[str, str]:
    """Write all of them at once, unless another process was first; return what is there."""
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
        for name in _NAMES:
            (draft / name).unlink()
        draft.rmdir()
        return {name: (folder / name).read_text() for name in _NAMES}
    return made
