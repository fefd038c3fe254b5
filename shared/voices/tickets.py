"""Tickets for the service `live`: the api signs them, `live` verifies them by itself.

A ticket permits bringing the recording of one voice over a WebSocket. It names the voice and when
it expires, and is signed by HMAC-SHA256 (RFC 2104) with a key that both deployables have.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from shared.voices.voice import InvalidVoiceIdError, parse_voice_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEAST_KEY_CHARACTERS: Final = 32
# Signed as well, so that a signature made for anything else is no ticket.
_PURPOSE: Final = "voice-avatar.live.v1"
_PARTS: Final = 3
_LONGEST: Final = 200


class TicketRefusedError(Exception):
    """A text is no ticket, was not signed with one of our keys, or has expired: for the log."""


@dataclass(frozen=True, slots=True)
class Ticket:
    text: str
    expires_at: datetime


class Tickets:
    """Signs tickets with the first of its keys, and verifies those of all."""

    def __init__(
        self,
        keys: Sequence[str],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not keys:
            raise ValueError("tickets need at least one key")
        self._keys = [key.encode() for key in keys]
        self._now = now

    def sign(self, voice_id: str, lifetime: timedelta) -> Ticket:
        # Whole seconds, because the ticket contains no fraction.
        expires_at = (self._now() + lifetime).replace(microsecond=0)
        claims = f"{parse_voice_id(voice_id)}.{int(expires_at.timestamp())}"
        return Ticket(f"{claims}.{_signature(self._keys[0], claims)}", expires_at)

    def verify(self, text: str) -> str:
        """Return the voice_id of a ticket, or raise `TicketRefusedError`."""
        parts = text.split(".")
        if len(text) > _LONGEST or len(parts) != _PARTS or not text.isascii():
            raise TicketRefusedError("this is no ticket")
        voice_id, expires_at, signature = parts
        claims = f"{voice_id}.{expires_at}"
        if not any(hmac.compare_digest(_signature(key, claims), signature) for key in self._keys):
            raise TicketRefusedError("the ticket's signature is not ours")
        # Signed text was written by `sign`, so it can be parsed.
        if self._now() >= datetime.fromtimestamp(int(expires_at), UTC):
            raise TicketRefusedError("the ticket has expired")
        try:
            return parse_voice_id(voice_id)
        except InvalidVoiceIdError as error:
            raise TicketRefusedError(str(error)) from error


def _signature(key: bytes, claims: str) -> str:
    digest = hmac.digest(key, f"{_PURPOSE}.{claims}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
