"""A line in which clients take turns, so that who asks for much keeps nobody waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Line:
    """Gives places to those who wait: to one request of each client, then to the next of each.

    Args:
        places: how many there are.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        # The client at the beginning is the next one; who has had a place goes to the end.
        self._waiting: dict[str | None, deque[asyncio.Future[None]]] = {}

    def others_wait(self, client: str | None) -> bool:
        """Return whether somebody else waits for a place."""
        return any(other != client for other in self._waiting)

    @asynccontextmanager
    async def place(self, client: str | None) -> AsyncIterator[None]:
        """Wait for a place, and have it inside the context.

        Args:
            client: who waits; None is a client, too.
        """
        await self._enter(client)
        try:
            yield
        finally:
            self._leave(client)

    async def _enter(self, client: str | None) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(client, turn)
            else:
                self._leave(client)  # the place was given in the same moment
            raise

    def _leave(self, client: str | None) -> None:
        if client in self._waiting:
            self._waiting[client] = self._waiting.pop(client)
        while self._waiting:
            turn = self._take_first()
            if not turn.done():  # who leaves in the same moment needs no place
                turn.set_result(None)
                return
        self._free += 1

    def _take_first(self) -> asyncio.Future[None]:
        client = next(iter(self._waiting))
        turns = self._waiting.pop(client)
        turn = turns.popleft()
        if turns:
            self._waiting[client] = turns
        return turn

    def _forget(self, client: str | None, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(client, deque())
        with suppress(ValueError):  # it was passed over already
            turns.remove(turn)
        if not turns:
            self._waiting.pop(client, None)
