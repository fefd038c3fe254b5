"""A fair queue for the work of clients, and the admission of requests to it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias
from weakref import WeakValueDictionary

from shared.runtime.push import OverloadedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    Client = str | None


# Time that a new client or text has ahead of others, so that a short request needs one turn.
CREDIT_SECONDS: Final = 0.5

OTHERS_SECONDS: Final = 60.0  # after its last request a client counts among the others for so long
REST_SECONDS: Final = 1.0  # after a hostile recording a client has no place, while others come

# Lets others run between two pieces of work.
PassOn: TypeAlias = "Callable[[], Awaitable[None]]"


async def stay() -> None:
    """Let nobody else run in between."""


@dataclass(eq=False)
class Share:
    """The time for which a client, or a text, has had places, and that of its part served last."""

    seconds: float = float("-inf")
    served: float = 0.0
    whole: Share | None = None

    def come(self, served: float) -> None:
        """Begin, or go on after a pause, at the time that was served last: nobody saves it up."""
        self.seconds = max(self.seconds, served - CREDIT_SECONDS)


@dataclass(eq=False)
class _Place:
    name: Client
    client: Share
    text: Share
    turn: asyncio.Future[None]
    since: float = 0.0

    @property
    def used(self) -> tuple[float, float]:
        """The times of the client and the text; the least is next."""
        return self.client.seconds, self.text.seconds


class FairQueue:
    """A queue that gives places to the client that has had least time.

    Of one client it is the turn of the text that has had least, so a short text does not wait for
    the whole of a long one. A new one begins at the time that was served last (start-time fair
    queuing: P. Goyal et al., IEEE/ACM Transactions on Networking 5(5), 1997).

    Work under way is not stopped. So while one client has all places, each other one may take a
    spare place instead of waiting until a long piece ends.
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
        """Return whether another one waits that has had less; without a text, another client."""
        self._count(client)
        known = self._clients.get(client)
        if known is None:
            return False
        used = known.seconds, float("-inf") if text is None else text.seconds
        return any(place.used < used for place in self._waiting)

    @asynccontextmanager
    async def slot(self, client: Client = None, text: Share | None = None) -> AsyncIterator[None]:
        """Wait for a place, and have it inside the context; None is a client, too.

        A text that queues again and again has a share of its own.
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
                self._leave()  # the place was given at the same moment
            raise

    def _is_free_for(self, place: _Place) -> bool:
        if self._taken < self._places:
            return True
        holders = {held.name for held in self._held}
        has_one_all = len(holders - {place.name}) == 1 and place.name not in holders
        return has_one_all and self._taken < self._places + self._spare

    def _count(self, client: Client) -> None:
        now = self._now()
        for place in self._held:
            if place.name == client:
                place.client.seconds += now - place.since
                place.text.seconds += now - place.since
                place.since = now

    def _leave(self) -> None:
        self._taken -= 1
        while self._waiting:
            following = min(self._waiting, key=lambda place: place.used)
            if not self._is_free_for(following):
                return
            self._waiting.remove(following)
            if not following.turn.done():  # one that leaves at the same moment needs no place
                self._taken += 1
                following.turn.set_result(None)


class Slots(Protocol):
    """A limit of work that is done at once, with the methods of `FairQueue`."""

    def slot(
        self, client: str | None = None, text: Share | None = None
    ) -> AbstractAsyncContextManager[None]: ...

    def should_pass_on(self, client: str | None, text: Share | None = None) -> bool: ...


class Turn:
    """Work of a client that runs piece by piece and takes turns; in the context it has a place."""

    def __init__(
        self,
        slots: Slots,
        client: str | None,
        count_work: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._slots = slots
        self._client = client
        self._count_work = count_work
        self._share = Share()
        self._held = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def begin(self) -> None:
        await self._held.enter_async_context(self._slots.slot(self._client, self._share))
        self._held.enter_context(self._count_work())

    async def end(self) -> None:
        await self._held.aclose()

    async def pass_on(self) -> None:
        """Let others run first that have had less, if any wait."""
        if self._slots.should_pass_on(self._client, self._share):
            await self.end()
            await self.begin()


class Admission:
    """The limits of accepted requests, and of the conversions that run at the same time.

    `slots` limit the work of several processes; None for a queue of this one alone.
    """

    def __init__(
        self,
        *,
        running: int,
        waiting: int,
        spare: int = 0,
        slots: Slots | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = running + waiting
        self._most_of_one = max(1, running // 2)
        self._most_in_queue = max(1, self._most // 2)
        self._now = now
        self._admitted = 0
        self._admitted_of: Counter[str] = Counter()
        # The last two clients suffice: one of them is not the client that asks.
        self._seen: dict[str, float] = {}
        self._rests_until: dict[str, float] = {}
        # Not both: work that waits for a slot of all processes would have a place here meanwhile.
        self._slots = slots or FairQueue(running, spare, now)
        self._few = running // 2
        self._running = 0
        self.worked_seconds = 0.0

    @contextmanager
    def admit(self, client: str | None = None, *, waits: bool = False) -> Iterator[None]:
        """Accept one request, for as long as it is handled.

        A client has half of the places that run, and if it `waits` half of all, while others come.

        Raises:
            OverloadedError: all places are taken, or all of this client.
        """
        if client is not None:
            self._seen.pop(client, None)
            self._seen[client] = self._now()
            while len(self._seen) > 2:  # noqa: PLR2004 - see above
                del self._seen[next(iter(self._seen))]
        if self._admitted >= self._most:
            raise OverloadedError(f"all {self._most} places are taken")
        if client is not None:
            now = self._now()
            has_others = any(
                seen > now - OTHERS_SECONDS for other, seen in self._seen.items() if other != client
            )
            most_of_one = self._most_in_queue if waits else self._most_of_one
            has_share = self._admitted_of[client] >= most_of_one
            if has_others and (has_share or self._rests_until.get(client, now) > now):
                raise OverloadedError("all places of this client are taken, or it has to rest")
        counted = [] if client is None else [client]
        self._admitted += 1
        self._admitted_of.update(counted)
        try:
            yield
        finally:
            self._admitted -= 1
            self._admitted_of.subtract(counted)
            self._admitted_of += Counter()  # forgets clients without a place

    def penalize(self, client: str | None) -> None:
        """Let a client rest whose recording has failed as those of an attacker do."""
        if client is None:
            return
        now = self._now()
        self._rests_until = {each: end for each, end in self._rests_until.items() if end > now}
        self._rests_until[client] = now + REST_SECONDS

    def turn(self, client: str | None = None) -> Turn:
        """Return the turn of one more conversion, or text; it waits for a place."""
        return Turn(self._slots, client, self.count_work)

    @asynccontextmanager
    async def turn_ahead(self) -> AsyncIterator[bool]:
        """Count a conversion for which nobody waits; yield False if too many others run."""
        if self._running >= self._few:
            yield False
            return
        async with self.turn():
            yield True

    @contextmanager
    def count_work(self) -> Iterator[None]:
        """Count a running conversion or text, and its time."""
        begin = self._now()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self.worked_seconds += self._now() - begin
