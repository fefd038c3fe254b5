"""Whether a request comes from a page of this site, where Firebase App Check is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from functions.api.problems import Problem
from shared.ports.tokens import TokenRefusedError

if TYPE_CHECKING:
    from starlette.requests import Request

    from shared.ports.tokens import TokenVerifier

HEADER: Final = "X-Firebase-AppCheck"


class AppCheck:
    """Lets in the pages that App Check vouches for.

    Args:
        verifier: checks the tokens; None where every page is let in.
    """

    def __init__(self, verifier: TokenVerifier | None) -> None:
        self._verifier = verifier

    async def require(self, request: Request) -> None:
        """Refuse a request that does not come from a page of this site.

        Raises:
            Problem: `app_check_refused`.
            CertificatesUnavailableError: the token could not be checked now.
        """
        if self._verifier is None:
            return
        try:
            await self._verifier.verify(request.headers.get(HEADER))
        except TokenRefusedError as error:
            detail = f"Only pages of this site may call, with a token of App Check: {error}."
            raise Problem(401, "app_check_refused", detail) from error
