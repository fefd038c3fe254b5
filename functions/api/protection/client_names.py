"""The pseudonym of a client's network, which only the key explains."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shared.http.client_networks import networks_of

if TYPE_CHECKING:
    from collections.abc import Callable


class ClientNames:
    """Names the largest network that a client counts for; every day another name.

    Converters share their places out by this name. It is in a voice's document until the voice
    ends, and in messages, and no address is.

    Args:
        key: the secret key.
        now: the time.
    """

    def __init__(self, key: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._key = key.encode()
        self._now = now

    def name_of(self, client: str) -> str:
        """Return 16 hexadecimal digits for a client as `client_of` returns it."""
        network = networks_of(client)[0][1]
        named = f"client {self._now().date().isoformat()} {network}"
        return hmac.new(self._key, named.encode(), hashlib.sha256).hexdigest()[:16]
