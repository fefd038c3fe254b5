"""A fair queue for the work of clients, and the admission of requests to it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias
from weakref import WeakValueDictionary

from shared.runtime.push import OverloadedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    Client = str | None


CREDIT_SECONDS: Final = 0.5  # a new client or text has so much more: a short one needs one turn
OTHERS_SECONDS: Final = 60.0  # after its last request a client counts among the others for so long
REST_SECONDS: Final = 1.0  # after a hostile recording a client has no place, while others come

# Lets others run between two pieces of work.
PassOn: TypeAlias = "Callable[[], Awaitable[None]]"


async def stay() -> None:
    """Let nobody else run."""


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
        return self.client.seconds, self.text.seconds  # the least is next


class RecentClients:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # The last two suffice: one of them is not the client that asks.
        self._seen: dict[str, float] = {}

    def see(self, client: Client) -> None:
        if client is not None:
            self._seen.pop(client, None)
            self._seen[client] = self._now()
            while len(self._seen) > 2:  # noqa: PLR2004 - see above
                del self._seen[next(iter(self._seen))]

    def have_others(self, client: Client) -> bool:
        """Return whether another client has come; one without a name is never limited."""
        since = self._now() - OTHERS_SECONDS
        return client is not None and any(
            seen > since for other, seen in self._seen.items() if other != client
        )


class FairQueue:
    """A queue that gives places to the client that has had least time.

    Of one client it is the turn of the text that has had least, so a short text does not wait for
    the whole of a long one. A new one begins at the time that was served last (start-time fair
    queuing: P. Goyal et al., IEEE/ACM Transactions on Networking 5(5), 1997).

    Work under way is not stopped. So while one client has all places, each other one may take a
    spare place. Where nothing is spare, `most_of_one` keeps places free for the others: while they
    come, the rest of a client's work waits.
    """

    def __init__(
        self,
        places: int,
        spare: int = 0,
        now: Callable[[], float] = time.monotonic,
        most_of_one: int | None = None,
    ) -> None:
        self._places = places
        self._spare = spare
        self._most_of_one = places + spare if most_of_one is None else most_of_one
        self._now = now
        self._recent = RecentClients(now)
        self._resting: dict[Client, asyncio.TimerHandle] = {}
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
        """Have a place in the context; None is a client. A text that comes again has a share."""
        self._recent.see(client)
        text = text or Share()
        share = text.whole = self._clients.setdefault(client, Share())
        share.come(self._served)
        text.come(share.served)
        place = _Place(client, share, text, asyncio.get_running_loop().create_future())
        self._waiting.append(place)
        self._give_places()
        try:
            await place.turn
            self._served = max(self._served, share.seconds)
            share.served = max(share.served, text.seconds)
            yield
        finally:
            if place in self._held:
                self._count(client)
                self._held.remove(place)
                self._give_places()
            else:
                self._waiting.remove(place)

    def rest(self, client: Client) -> None:
        """Give a client no place for `REST_SECONDS`, while others come."""

        def end_rest() -> None:
            del self._resting[client]
            self._give_places()

        if client in self._resting:
            self._resting[client].cancel()
        self._resting[client] = asyncio.get_running_loop().call_later(REST_SECONDS, end_rest)

    def _is_free_for(self, place: _Place) -> bool:
        taken, holders = len(self._held), Counter(held.name for held in self._held)
        if taken < self._places:
            is_limited = place.name in self._resting or holders[place.name] >= self._most_of_one
            return not is_limited or not self._recent.have_others(place.name)
        has_one_all = len(holders) == 1 and place.name not in holders
        return has_one_all and taken < self._places + self._spare

    def _count(self, client: Client) -> None:
        now = self._now()
        for place in self._held:
            if place.name == client:
                place.client.seconds += now - place.since
                place.text.seconds += now - place.since
                place.since = now

    def _give_places(self) -> None:
        # One whose turn is done leaves at this moment, and needs no place.
        while ready := [p for p in self._waiting if not p.turn.done() and self._is_free_for(p)]:
            following = min(ready, key=lambda place: place.used)
            self._waiting.remove(following)
            following.since = self._now()
            self._held.append(following)
            following.turn.set_result(None)


class Slots(Protocol):
    def slot(
        self, client: str | None = None, text: Share | None = None
    ) -> AbstractAsyncContextManager[None]: ...

    def should_pass_on(self, client: str | None, text: Share | None = None) -> bool: ...


class Turn:
    """A place for work in pieces; OverloadedError if none comes within `patience`."""

    def __init__(
        self,
        slots: Slots,
        client: str | None,
        count_work: Callable[[], AbstractContextManager[None]],
        patience: float | None = None,
    ) -> None:
        self._slots = slots
        self._client = client
        self._count_work = count_work
        self._patience = patience
        self._share = Share()
        self._held = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(self._patience):
                await self.begin()
        except TimeoutError:
            raise OverloadedError(f"no place became free within {self._patience:g} s") from None
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
    """The limits of accepted requests, and of conversions at once; `slots` of all processes."""

    def __init__(
        self,
        *,
        running: int,
        waiting: int,
        spare: int = 0,
        slots: Slots | None = None,
        most_of_one: int | None = None,
        patience: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = running + waiting
        self._now = now
        self._admitted = 0
        self._admitted_of: Counter[str] = Counter()
        self._recent = RecentClients(now)
        self._queue = FairQueue(running, spare, now, most_of_one)
        # Not both: work that waits for a slot of all processes would have a place here meanwhile.
        self._slots: Slots = slots or self._queue
        self._patience = patience
        self._few = running // 2
        self._running = 0
        self.worked_seconds = 0.0

    @contextmanager
    def admit(self, client: str | None = None) -> Iterator[None]:
        """Accept a request while it is handled, or OverloadedError; others leave a client half."""
        self._recent.see(client)
        if self._admitted >= self._most:
            raise OverloadedError(f"all {self._most} places are taken")
        counted = [] if client is None else [client]
        has_share = any(self._admitted_of[each] >= max(1, self._most // 2) for each in counted)
        if has_share and self._recent.have_others(client):
            raise OverloadedError("all places of this client are taken")
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
        if client is not None:
            self._queue.rest(client)

    def turn(self, client: str | None = None) -> Turn:
        return Turn(self._slots, client, self.count_work, self._patience)

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
        begin = self._now()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self.worked_seconds += self._now() - begin
