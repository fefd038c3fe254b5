"""Who a visitor is, and whether a voice is theirs; for sites where visitors can sign in."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from functions.api.problems import Problem
from shared.ports import TokenRefusedError
from shared.runtime.limits import networks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from shared.ports import TokenVerifier
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


class ClientNames:
    """Names the largest network that a client counts for; every day another name.

    Converters share their places out by this name. It is in a voice's document until the voice
    ends, and in messages, and no address is.
    """

    def __init__(self, key: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._key = key.encode()
        self._now = now

    def name_of(self, client: str) -> str:
        """Return 16 hexadecimal digits for a client as `client_of` returns it."""
        network = networks_of(client)[0][1]
        named = f"client {self._now().date().isoformat()} {network}"
        return hmac.new(self._key, named.encode(), hashlib.sha256).hexdigest()[:16]
