"""A line in which clients take turns, so that who asks for much keeps nobody waiting."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    Client = str | None

CREDIT_SECONDS: Final = 0.5
"""By how much less a client, or a text, counts as having had that comes anew: a short request is
done in one turn."""


@dataclass(eq=False)
class Share:
    """How long a client, or one text of it, has had places.

    Attributes:
        seconds: for how long; the least for what has not come yet.
        served: how many seconds the part of it that was served last had had.
        whole: of which it is a part.
    """

    seconds: float = float("-inf")
    served: float = 0.0
    whole: Share | None = None

    def come(self, served: float) -> None:
        """Begin, or go on after a pause, with what was served last: nobody saves anything up."""
        self.seconds = max(self.seconds, served - CREDIT_SECONDS)


@dataclass(eq=False)
class _Place:
    """A place that a text has, or waits for.

    Attributes:
        name: of the client.
        client: what it has had.
        text: what the text has had.
        turn: is done when the text may have the place.
        since: from when on its time is not counted yet.
    """

    name: Client
    client: Share
    text: Share
    turn: asyncio.Future[None]
    since: float = 0.0

    @property
    def had(self) -> tuple[float, float]:
        """Return what the client and the text have had; the least is next."""
        return self.client.seconds, self.text.seconds


class Line:
    """Gives places to those who wait: to the client that has had least time.

    Of one client it is the turn of the text that has had least, so a short text does not wait for
    the whole of a long one. What comes anew begins with what was served last (start-time fair
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
        self._waiting: list[_Place] = []
        # A client is known for as long as a text of it is.
        self._clients: WeakValueDictionary[Client, Share] = WeakValueDictionary()
        self._served = 0.0

    def should_pass_on(self, client: Client, text: Share | None = None) -> bool:
        """Return whether another one waits that has had less.

        Args:
            client: that has a place.
            text: of the client, that has the place; None to ask for other clients alone.
        """
        self._count(client)
        known = self._clients.get(client)
        if known is None:
            return False
        had = known.seconds, float("-inf") if text is None else text.seconds
        return any(place.had < had for place in self._waiting)

    @asynccontextmanager
    async def slot(self, client: Client = None, text: Share | None = None) -> AsyncIterator[None]:
        """Wait for a place, and have it inside the context.

        Args:
            client: who waits; None is a client, too.
            text: what the client's text has had, which goes on in the line again and again; None
                for something that comes once.
        """
        text = text or Share()
        share = text.whole = self._clients.setdefault(client, Share())
        share.come(self._served)
        text.come(share.served)
        place = _Place(client, share, text, asyncio.get_running_loop().create_future())
        await self._enter(place)
        self._served = max(self._served, share.seconds)
        share.served = max(share.served, text.seconds)
        place.since = self._now()
        self._held.append(place)
        try:
            yield
        finally:
            self._count(client)
            self._held.remove(place)
            self._leave()

    async def _enter(self, place: _Place) -> None:
        if self._is_free_for(place):
            self._taken += 1
            return
        self._waiting.append(place)
        try:
            await place.turn
        except asyncio.CancelledError:
            if place.turn.cancelled():
                with suppress(ValueError):  # it was passed over already
                    self._waiting.remove(place)
            else:
                self._leave()  # the place was given in the same moment
            raise

    def _is_free_for(self, place: _Place) -> bool:
        if self._taken < self._places:
            return True
        holders = {held.name for held in self._held}
        has_one_all = len(holders - {place.name}) == 1 and place.name not in holders
        return has_one_all and self._taken < self._places + self._spare

    def _count(self, client: Client) -> None:
        """Count the time that a client has had its places."""
        now = self._now()
        for place in self._held:
            if place.name == client:
                place.client.seconds += now - place.since
                place.text.seconds += now - place.since
                place.since = now

    def _leave(self) -> None:
        self._taken -= 1
        while self._waiting:
            following = min(self._waiting, key=lambda place: place.had)
            if not self._is_free_for(following):
                return
            self._waiting.remove(following)
            if not following.turn.done():  # who leaves in the same moment needs no place
                self._taken += 1
                following.turn.set_result(None)
