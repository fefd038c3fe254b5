"""Identification of visitors: sign-in, App Check, and the pseudonyms of clients."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class CharacterChooser:
    """A visitor who chooses a character, with the sign-in and an own character's key if any."""

    uid: str | None = None
    key: str | None = None


ANYBODY: Final = CharacterChooser()


@dataclass(frozen=True, slots=True)
class SignIn:
    """Identifies signed-in visitors; without a verifier nobody can sign in."""

    verifier: TokenVerifier | None

    @property
    def is_offered(self) -> bool:
        return self.verifier is not None

    async def uid_of(self, authorization: str | None) -> str | None:
        """Return the uid of a visitor, None for an anonymous one; may raise `TokenRefusedError`."""
        if self.verifier is None or authorization is None:
            return None
        claims = await self.verifier.verify(authorization)
        return str(claims["sub"])

    async def require_owner(self, voice: Voice, authorization: str | None) -> None:
        if voice.owner is not None and await self.uid_of(authorization) != voice.owner:
            raise Problem(403, "not_owner", "This voice belongs to a visitor who is signed in.")


HEADER: Final = "X-Firebase-AppCheck"


@dataclass(frozen=True, slots=True)
class AppCheck:
    """Checks the App Check token of a request; without a verifier every request is accepted."""

    verifier: TokenVerifier | None

    async def require(self, request: Request) -> None:
        if self.verifier is None:
            return
        try:
            await self.verifier.verify(request.headers.get(HEADER))
        except TokenRefusedError as error:
            detail = f"Only this site's own pages may send this request: {error}."
            raise Problem(401, "app_check_refused", detail) from error


class ClientNames:
    """Daily pseudonyms for the largest network that a client counts for.

    Converters share their places out by this name. A voice's document has it until the voice ends,
    and messages have it; neither has an address.
    """

    def __init__(self, key: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._key = key.encode()
        self._now = now

    def name_of(self, client: str) -> str:
        """Return 16 hexadecimal digits for a client as `client_of` returns it."""
        network = networks_of(client)[0][1]
        named = f"client {self._now().date().isoformat()} {network}"
        return hmac.new(self._key, named.encode(), hashlib.sha256).hexdigest()[:16]
