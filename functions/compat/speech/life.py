"""What happens on a connection: with too many of them, it decides which one makes room."""

from __future__ import annotations

import asyncio
from typing import Final

SPOKEN_SECONDS: Final = 5.0
"""For how long after a piece of sound a client counts as one that hears something."""


class Life:
    """What happens on one connection."""

    def __init__(self) -> None:
        self._message_at = asyncio.get_running_loop().time()
        self._sound_at = float("-inf")

    def note_message(self) -> None:
        """Note that the client has sent something."""
        self._message_at = asyncio.get_running_loop().time()

    def note_sound(self) -> None:
        """Note that the client is sent sound."""
        self._sound_at = asyncio.get_running_loop().time()

    @property
    def hears(self) -> bool:
        """Whether the client hears something just now.

        A text that was begun and does not come is not enough: it would hold the place for ever.
        """
        return asyncio.get_running_loop().time() - self._sound_at < SPOKEN_SECONDS

    @property
    def claim(self) -> tuple[bool, float]:
        """The connection with the least makes room: nothing is heard, and it has idled longest."""
        return self.hears, max(self._message_at, self._sound_at)
