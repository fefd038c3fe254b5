"""Signs the statement and puts it into a file, with the C2PA library of the standard's makers.

The library is loaded when it is first needed: that takes 0.15 s, and signing 2 ms of a result.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Sign = Callable[[bytes], bytes]
    """Signs bytes: ECDSA over P-256 with SHA-256, as r and s, 32 bytes each (ES256)."""

_COORDINATE_BYTES = 32


class CredentialsError(Exception):
    """A result cannot be signed now."""


@dataclass(frozen=True)
class CredentialSigner:
    """Puts signed statements into results; several threads may use it at once.

    Attributes:
        certificates: of the signer and of those who vouch for it, as PEM, the signer's first.
        sign: signs with the key of the first certificate; it may call a service.
        time_stamp_url: of an RFC 3161 time-stamp authority; None for no time stamp.
    """

    certificates: str
    sign: Sign
    time_stamp_url: str | None = None

    def load(self) -> None:
        """Load the library, so that the first result need not wait for it."""
        import c2pa  # noqa: F401, PLC0415 - see the module

    def add_credentials(
        self, data: bytes, content_type: str, statement: Mapping[str, Any]
    ) -> bytes:
        """Return a file with a signed statement in it.

        Args:
            data: the file.
            content_type: its media type, one of SIGNED_MEDIA_TYPES.
            statement: see `describe`.

        Raises:
            CredentialsError: the signer or the time-stamp authority did not answer, or the
                certificates are wrong.
        """
        import c2pa  # noqa: PLC0415 - see the module

        target = io.BytesIO()
        try:
            with (
                c2pa.Signer.from_callback(
                    self.sign, c2pa.C2paSigningAlg.ES256, self.certificates, self.time_stamp_url
                ) as signer,
                c2pa.Builder(dict(statement)) as builder,
            ):
                builder.sign(signer, content_type, io.BytesIO(data), target)
        except c2pa.C2paError as error:
            raise CredentialsError(f"the result is not signed: {error}") from error
        return target.getvalue()


def sign_with(key_pem: bytes) -> Sign:
    """Build the signer of a private key.

    Args:
        key_pem: PKCS 8 as PEM, on the curve P-256.

    Raises:
        ValueError: it is no such key; the message says nothing of it.
    """
    try:
        key = serialization.load_pem_private_key(key_pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("expected a private key as PEM (PKCS 8) without a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("expected a private key on the curve P-256")  # noqa: TRY004 - of a text
    return lambda data: raw_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))


def raw_signature(der: bytes) -> bytes:
    """Return a signature in the form of ES256: r and s, 32 bytes each (RFC 7518, 3.4)."""
    return b"".join(part.to_bytes(_COORDINATE_BYTES, "big") for part in decode_dss_signature(der))
