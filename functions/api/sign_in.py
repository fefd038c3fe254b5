"""Whose voice it is, where visitors may sign in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.api.problems import Problem

if TYPE_CHECKING:
    from shared.google.tokens import TokenVerifier
    from shared.voice import Voice


class Owners:
    """Tells who a visitor is and which voices are theirs.

    Args:
        verifier: checks the sign-in; None where visitors cannot sign in.
    """

    def __init__(self, verifier: TokenVerifier | None) -> None:
        self._verifier = verifier

    @property
    def exist(self) -> bool:
        """Whether a voice may have an owner."""
        return self._verifier is not None

    async def visitor(self, authorization: str | None) -> str | None:
        """Return the signed-in visitor's uid, None for an anonymous one.

        Raises:
            TokenRefusedError: the visitor claims a sign-in that does not hold.
        """
        if self._verifier is None or authorization is None:
            return None
        claims = await self._verifier.verify(authorization)
        return str(claims["sub"])

    async def require(self, voice: Voice, authorization: str | None) -> None:
        """Refuse whoever is not the owner of a voice that has one.

        Raises:
            Problem: `not_owner`.
        """
        if voice.owner is None:
            return
        if await self.visitor(authorization) != voice.owner:
            raise Problem(403, "not_owner", "This voice belongs to a visitor who is signed in.")
