"""Checksums of contents, and those that a sender says a content has."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import google_crc32c

from infra.local.storage.protocol.errors import BadDigestError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Digests:
    """A content's size in bytes, CRC32C (base64, big-endian), MD5 (base64) and SHA-256 (hex)."""

    size: int
    crc32c: str
    md5: str
    sha256: str


class Hasher:
    """Computes `Digests` of a content that arrives in pieces."""

    def __init__(self) -> None:
        self._size = 0
        self._crc32c = google_crc32c.Checksum()  # type: ignore[no-untyped-call] # has no types
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._sha256 = hashlib.sha256()

    def update(self, data: bytes) -> None:
        """Take the next piece."""
        self._size += len(data)
        self._crc32c.update(data)  # type: ignore[no-untyped-call]
        self._md5.update(data)
        self._sha256.update(data)

    def digests(self) -> Digests:
        """The checksums of all pieces so far."""
        return Digests(
            size=self._size,
            crc32c=base64.b64encode(self._crc32c.digest()).decode(),  # type: ignore[no-untyped-call]
            md5=base64.b64encode(self._md5.digest()).decode(),
            sha256=self._sha256.hexdigest(),
        )


@dataclass(frozen=True, slots=True)
class ExpectedDigests:
    """The sender's checksums; a field is None where it sent none."""

    crc32c: str | None = None
    md5: str | None = None
    sha256: str | None = None

    @classmethod
    def from_hash_headers(cls, values: Iterable[str], **others: str | None) -> Self:
        """Read `x-goog-hash` headers: `crc32c=...` and `md5=...`, separate or joined by commas.

        Raises:
            InvalidArgumentError: a value names another algorithm.
        """
        found = dict(others)
        for item in ",".join(values).split(","):
            algorithm, _, digest = item.strip().partition("=")
            if algorithm in {"crc32c", "md5"} and digest:
                found[algorithm] = digest
            elif item.strip():
                raise InvalidArgumentError(f"Unknown x-goog-hash: {item.strip()!r}.")
        return cls(**found)

    def merged(self, other: Self) -> Self:
        """Both expectations; where both speak, `other` counts."""
        return type(self)(
            crc32c=other.crc32c or self.crc32c,
            md5=other.md5 or self.md5,
            sha256=other.sha256 or self.sha256,
        )

    def check(self, actual: Digests) -> None:
        """Compare with what arrived.

        Raises:
            BadDigestError: a given checksum differs.
        """
        pairs = (
            ("CRC32C", self.crc32c, actual.crc32c),
            ("MD5 hash", self.md5, actual.md5),
            ("SHA-256", self.sha256, actual.sha256),
        )
        for label, provided, calculated in pairs:
            if provided is not None and provided != calculated:
                raise BadDigestError(
                    f'Provided {label} "{provided}" doesn\'t match '
                    f'calculated {label} "{calculated}".'
                )
