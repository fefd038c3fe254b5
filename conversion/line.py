"""A line in which clients take turns, so that who asks for much keeps nobody waiting."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    Client = str | None

CREDIT_SECONDS: Final = 0.25
"""By how much less a client counts as having had that comes anew: a short request is done in one
turn."""


@dataclass(eq=False)
class _Place:
    """A place that a client has.

    Attributes:
        client: whose it is.
        since: from when on its time is not counted yet.
    """

    client: Client
    since: float


class Line:
    """Gives places to those who wait: to the client that has had least time, in its own order.

    A client that comes anew begins with what the one that was served last had had (start-time fair
    queuing: P. Goyal et al., IEEE/ACM Transactions on Networking 5(5), 1997).

    What is under way is not stopped. So while one client has all places, each other one may take a
    spare place instead of waiting until a long piece ends.

    Args:
        places: how many there are.
        spare: how many more there are beside a client that has all places.
        now: a clock in seconds that never goes back.
    """

    def __init__(
        self, places: int, spare: int = 0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = places
        self._spare = spare
        self._taken = 0
        self._now = now
        self._held: list[_Place] = []
        self._waiting: dict[Client, deque[asyncio.Future[None]]] = {}
        self._requests: Counter[Client] = Counter()
        self._had: dict[Client, float] = {}
        self._had_last = 0.0

    def should_pass_on(self, client: Client) -> bool:
        """Return whether a client that has a place has had more time than another that waits."""
        self._count(client)
        had = self._had.get(client, 0.0)
        return any(self._had[other] < had for other in self._waiting if other != client)

    @asynccontextmanager
    async def slot(self, client: Client = None) -> AsyncIterator[None]:
        """Wait for a place, and have it inside the context.

        Args:
            client: who waits; None is a client, too.
        """
        if client not in self._had:
            self._had[client] = self._had_last - CREDIT_SECONDS
        self._requests[client] += 1
        try:
            await self._enter(client)
            self._had_last = max(self._had_last, self._had[client])
            place = _Place(client, self._now())
            self._held.append(place)
            try:
                yield
            finally:
                self._count(client)
                self._held.remove(place)
                self._leave()
        finally:
            self._requests[client] -= 1
            if not self._requests[client]:
                del self._requests[client], self._had[client]

    async def _enter(self, client: Client) -> None:
        if self._is_free_for(client):
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(client, turn)
            else:
                self._leave()  # the place was given in the same moment
            raise

    def _is_free_for(self, client: Client) -> bool:
        if self._taken < self._places:
            return True
        holders = {place.client for place in self._held}
        has_one_all = len(holders - {client}) == 1 and client not in holders
        return has_one_all and self._taken < self._places + self._spare

    def _count(self, client: Client) -> None:
        """Count the time that a client has had its places."""
        now = self._now()
        for place in self._held:
            if place.client == client:
                self._had[client] += now - place.since
                place.since = now

    def _leave(self) -> None:
        self._taken -= 1
        while self._waiting and self._is_free_for(self._next()):
            turn = self._take_next()
            if not turn.done():  # who leaves in the same moment needs no place
                self._taken += 1
                turn.set_result(None)

    def _next(self) -> Client:
        return min(self._waiting, key=self._had.__getitem__)

    def _take_next(self) -> asyncio.Future[None]:
        client = self._next()
        turn = self._waiting[client].popleft()
        if not self._waiting[client]:
            del self._waiting[client]
        return turn

    def _forget(self, client: Client, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(client, deque())
        with suppress(ValueError):  # it was passed over already
            turns.remove(turn)
        if not turns:
            self._waiting.pop(client, None)
