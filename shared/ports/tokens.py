"""The port that tells who sent a request, by its identity token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from shared.errors import PassingError

if TYPE_CHECKING:
    from collections.abc import Mapping


class TokenRefusedError(Exception):
    """A request's identity token does not prove what it must; the message says what is wrong."""


class CertificatesUnavailableError(PassingError):
    """The certificates that tokens are checked with could not be fetched."""


class TokenVerifier(Protocol):
    """Decides whether an `Authorization` header proves that the right party sent the request."""

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        """Return the token's claims.

        Args:
            authorization: the header, None if there is none.

        Raises:
            TokenRefusedError: the header is missing or proves nothing.
            CertificatesUnavailableError: the token could not be checked now.
        """
        ...


class NoTokenNeeded:
    """A `TokenVerifier` that accepts every request, because the local cloud sends no tokens."""

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:  # noqa: ARG002 - the port's form
        """Return no claims."""
        return {}
