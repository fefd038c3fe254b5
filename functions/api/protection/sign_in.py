"""Who a visitor is, and whether a voice is theirs; for sites where visitors can sign in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.api.answers.problems import Problem

if TYPE_CHECKING:
    from shared.ports.tokens import TokenVerifier
    from shared.voices.voice import Voice


class SignIn:
    """Checks who a visitor is and whether a voice is theirs.

    Args:
        verifier: checks the visitor's token; None where visitors cannot sign in.
    """

    def __init__(self, verifier: TokenVerifier | None) -> None:
        self._verifier = verifier

    @property
    def is_offered(self) -> bool:
        """Whether visitors can sign in, so that a voice may have an owner."""
        return self._verifier is not None

    async def uid_of(self, authorization: str | None) -> str | None:
        """Return the uid of a signed-in visitor, None for an anonymous one.

        Raises:
            TokenRefusedError: the visitor's token is not valid.
            CertificatesUnavailableError: it could not be checked now.
        """
        if self._verifier is None or authorization is None:
            return None
        claims = await self._verifier.verify(authorization)
        return str(claims["sub"])

    async def require_owner(self, voice: Voice, authorization: str | None) -> None:
        """Refuse a visitor who is not the owner of a voice that has one.

        Raises:
            Problem: `not_owner`.
            TokenRefusedError, CertificatesUnavailableError: as in `uid_of`.
        """
        if voice.owner is None:
            return
        if await self.uid_of(authorization) != voice.owner:
            raise Problem(403, "not_owner", "This voice belongs to a visitor who is signed in.")
