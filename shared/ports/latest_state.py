"""The newest state of a watched document, kept until the waiting client takes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from shared.ports.store import StoreUnavailableError, UnreadableVoiceError
    from shared.voices.voice import Voice


class LatestState:
    """One waiting client's view of a document: older states are replaced, never queued."""

    def __init__(self) -> None:
        self._arrived = asyncio.Event()
        self._state: Voice | None = None
        self._error: StoreUnavailableError | UnreadableVoiceError | None = None

    def put(self, state: Voice | None) -> None:
        """Replace the state that has not been taken yet."""
        self._state = state
        self._arrived.set()

    def fail(self, error: StoreUnavailableError | UnreadableVoiceError) -> None:
        """End the client's iteration with an error."""
        self._error = error
        self._arrived.set()

    async def states(self) -> AsyncGenerator[Voice | None]:
        """Yield the newest state each time there is a new one."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            if self._error is not None:
                raise self._error
            yield self._state
