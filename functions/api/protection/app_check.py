"""Accepts only requests of the site's own pages, where Firebase App Check is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from functions.api.answers.problems import Problem
from shared.ports.tokens import TokenRefusedError

if TYPE_CHECKING:
    from starlette.requests import Request

    from shared.ports.tokens import TokenVerifier

HEADER: Final = "X-Firebase-AppCheck"


class AppCheck:
    """Checks the App Check token of a request.

    Args:
        verifier: verifies the tokens; None accepts every request.
    """

    def __init__(self, verifier: TokenVerifier | None) -> None:
        self._verifier = verifier

    async def require(self, request: Request) -> None:
        """Refuse a request without a valid App Check token.

        Raises:
            Problem: `app_check_refused`.
            CertificatesUnavailableError: the token could not be checked now.
        """
        if self._verifier is None:
            return
        try:
            await self._verifier.verify(request.headers.get(HEADER))
        except TokenRefusedError as error:
            detail = f"Only this site's own pages may send this request: {error}."
            raise Problem(401, "app_check_refused", detail) from error
