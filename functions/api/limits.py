"""How many requests one client may send to this instance, and how many may wait at a time.

Each instance counts for itself, so that no request waits for a counter elsewhere. The number of
instances limits what the whole service accepts.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from functions.api.problems import Problem
from shared.runtime.limits import ALLOWANCES, NoPlaceError, PlacesPerClient, network_of, networks_of
from shared.voices.store import StoreUnavailableError, UnknownVoiceError, UnreadableVoiceError
from shared.voices.voice import SUSPICIOUS, ErrorCode, Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from starlette.requests import Request

    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice


MOST_CLIENTS: Final = 20_000
"""How many clients are remembered; this takes a few megabytes."""

WINDOW_SECONDS: Final = 60.0

AT_ONCE: Final = 12
"""One of so many of the requests of a minute may be sent at once.

It is as much for a large network as for an address: what comes at once is what slows others down.
"""

PATIENCE_SECONDS: Final = 5.0
"""How long the creation of a voice waits for its turn before it is refused.

So a class behind one address, or a large network, is slowed down and not sent away. The visitor
speaks meanwhile.
"""

WAITING_PAUSE_SECONDS: Final = 5
"""After how many seconds to come back with one more waiting request.

By then a conversion has usually ended.
"""

VOICES_PAUSE_SECONDS: Final = 10
"""After how many seconds to come back with one more voice: by then some have usually ended."""

FAILED_COSTS: Final = 10
"""As how many more requests a recording counts that failed as those of an attacker do."""

MOST_PAUSE_SECONDS: Final = 5.0
"""How much longer a client must wait at most because recordings failed; a network less.

Others may have the same address, so its allowance becomes a tenth, but never nothing.
"""

_ROUNDING_SECONDS: Final = 1e-6


class RequestLimits:
    """Refuses clients that ask too often or wait too many times at once.

    Args:
        per_minute: how many requests a minute a client may send, a twelfth of them at once; 0 for
            no limit.
        waiting: how many of a client's requests may wait at the same time; 0 for no limit.
        trusted_proxies: how many of our own proxies have written into `X-Forwarded-For`.
        patience: for how many seconds the creation of a voice waits for its turn.
        now: a clock in seconds that never goes back.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        *,
        per_minute: int,
        waiting: int,
        trusted_proxies: int,
        patience: float = PATIENCE_SECONDS,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._patience = patience
        self._sleep = sleep
        # Each kind has buckets of its own: whoever invents addresses of one kind makes this
        # instance forget none of another.
        self._buckets = {
            kind: TokenBuckets(times * per_minute, now, at_once=math.ceil(per_minute / AT_ONCE))
            for kind, times in ALLOWANCES.items()
            if per_minute
        }
        self._trusted_proxies = trusted_proxies
        self._waiting = PlacesPerClient(waiting, trusted_proxies)
        self._uploading = PlacesPerClient(waiting, trusted_proxies)

    def client_of(self, request: Request) -> str:
        """Return the client that a request counts for; see `client_of` of `client_networks`."""
        return network_of(request, self._trusted_proxies)

    def admit(self, request: Request) -> None:
        """Count a request.

        Raises:
            Problem: `rate_limited`, with the seconds after which the client may try again.
        """
        counted = self._counted(request)
        # Only if all of them have a token one is taken from each, so that a refused request
        # neither costs nor makes this instance remember anything more.
        empty = next(((b, network) for b, network in counted if b.pause(network) > 0), None)
        if empty is None:
            for buckets, network in counted:
                buckets.take(network)
        else:
            buckets, network = empty
            pause = buckets.take(network)
            seconds = math.ceil(pause)
            detail = f"Too many requests came from your address; please wait {seconds} s."
            raise _rate_limited(detail, seconds)

    async def admit_in_turn(self, request: Request) -> None:
        """Count a request; if there are too many, let it wait a little for its turn.

        Raises:
            Problem: `rate_limited`, as `admit` says: its turn would not come soon.
        """
        counted = self._counted(request)
        pause = max((buckets.pause(network) for buckets, network in counted), default=0.0)
        if not 0 < pause <= self._patience:
            self.admit(request)
            return
        for buckets, network in counted:
            # The turn is taken now, so that whoever comes later waits longer.
            buckets.charge(network, 1, WINDOW_SECONDS)
        await self._sleep(pause)

    def _counted(self, request: Request) -> list[tuple[TokenBuckets, str]]:
        if not self._buckets:
            return []
        networks = networks_of(self.client_of(request))
        return [(self._buckets[kind], network) for kind, network in networks]

    def charge(self, client: str) -> None:
        """Count a recording of a client that failed as those of an attacker do."""
        for kind, network in networks_of(client) if self._buckets else ():
            # Beyond what requests that wait for their turn have taken in advance.
            pause = self._patience + MOST_PAUSE_SECONDS / ALLOWANCES[kind]
            self._buckets[kind].charge(network, FAILED_COSTS, pause)

    def give_back(self, client: str) -> None:
        """Take the request off a client's count whose voice failed by a mistake of ours."""
        for kind, network in networks_of(client) if self._buckets else ():
            self._buckets[kind].give_back(network)

    def too_many_voices(self, most: int) -> Problem:
        """Return the refusal of a client of whom so many voices have not ended."""
        detail = (
            f"{most} voices from your address or its network wait for their recording or are "
            f"being converted; please wait {VOICES_PAUSE_SECONDS} s."
        )
        return _rate_limited(detail, VOICES_PAUSE_SECONDS)

    @contextmanager
    def waiting(self, request: Request) -> Iterator[None]:
        """Count a request that waits, for as long as it waits.

        Raises:
            Problem: `rate_limited`: as many as allowed are waiting already.
        """
        with _counted(self._waiting, request, "requests", "are waiting"):
            yield

    @contextmanager
    def uploading(self, request: Request) -> Iterator[None]:
        """Count a recording that comes through the api, for as long as it comes.

        Raises:
            Problem: `rate_limited`: as many as allowed are coming already.
        """
        with _counted(self._uploading, request, "recordings", "are being uploaded"):
            yield


@contextmanager
def _counted(places: PlacesPerClient, request: Request, what: str, do: str) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(places.hold_place(request))
        except NoPlaceError as error:
            detail = (
                f"{error.most} {what} from your address or its network {do} already; "
                "please come back when one of them has been answered."
            )
            raise _rate_limited(detail, WAITING_PAUSE_SECONDS) from None
        yield


class TokenBuckets:
    """One token bucket per client.

    This is the generic cell rate algorithm (ITU-T I.371, virtual scheduling): all that is kept of a
    bucket is the moment at which it will be full again. Full buckets are forgotten. When there are
    too many, the least recently used ones are forgotten, too, which bounds the memory; a client
    that is forgotten early may send more, not less.

    Args:
        per_minute: how many tokens come back in a minute.
        now: a clock in seconds that never goes back.
        at_once: the size of a bucket; None for the tokens of a minute.
    """

    def __init__(
        self,
        per_minute: int,
        now: Callable[[], float],
        *,
        at_once: int | None = None,
        most_clients: int = MOST_CLIENTS,
    ) -> None:
        self._interval = WINDOW_SECONDS / per_minute
        self._window = (at_once or per_minute) * self._interval
        self._now = now
        self._most_clients = most_clients
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        """Count the buckets that are remembered."""
        return len(self._full_at)

    def pause(self, client: str) -> float:
        """Return the seconds until there is a token, 0 if there is one; takes none."""
        now = self._now()
        missing = self._missing(max(now, self._full_at.get(client, now)), now)
        return missing if missing > _ROUNDING_SECONDS else 0.0

    def take(self, client: str) -> float:
        """Take a token; return 0, or the seconds until there is one again."""
        now = self._now()
        full_at = max(now, self._full_at.pop(client, now))
        missing = self._missing(full_at, now)
        is_empty = missing > _ROUNDING_SECONDS
        self._full_at[client] = full_at if is_empty else full_at + self._interval
        self._forget(now)
        return missing if is_empty else 0.0

    def charge(self, client: str, tokens: int, most_pause: float) -> None:
        """Take tokens for something that has happened already, also some that are not there.

        Args:
            most_pause: for how many seconds the bucket may be without a token because of this.
        """
        now = self._now()
        full_at = max(now, self._full_at.pop(client, now))
        most = max(full_at, now + self._window - self._interval + most_pause)
        self._full_at[client] = min(full_at + tokens * self._interval, most)
        self._forget(now)

    def give_back(self, client: str) -> None:
        """Put a token back that was taken; a full bucket stays as it is."""
        if client in self._full_at:
            self._full_at[client] -= self._interval

    def _missing(self, full_at: float, now: float) -> float:
        return full_at + self._interval - (now + self._window)

    def _forget(self, now: float) -> None:
        while len(self._full_at) > self._most_clients or next(iter(self._full_at.values())) <= now:
            self._full_at.popitem(last=False)


def _rate_limited(detail: str, seconds: int) -> Problem:
    return Problem(429, "rate_limited", detail, {"Retry-After": str(seconds)})


LOOKS: Final = 4
"""How many earlier voices are looked at for each new one; more than are created meanwhile."""

MOST_VOICES: Final = 20_000
"""How many voices are remembered; this takes a few megabytes."""


IN_PROGRESS_SECONDS: Final = 60.0
"""For how long a voice without an end counts; who gives a recording up need not tell us."""


@dataclass(frozen=True, slots=True)
class _Created:
    client: str
    at: float

    @property
    def networks(self) -> list[str]:
        return [network for _, network in networks_of(self.client)]


class VoiceOutcomes:
    """Remembers voices that have not ended, and lets those that failed count for more.

    Args:
        in_progress: how many voices of the last minute one client, or its /48, may have without an
            end; 0 for no limit, and then nothing is remembered.
        now: a clock in seconds that never goes back.
    """

    def __init__(
        self,
        voices: VoiceStore,
        limits: RequestLimits,
        *,
        in_progress: int,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._voices = voices
        self._limits = limits
        self._in_progress = in_progress
        self._seconds = seconds
        self._now = now
        self._created: OrderedDict[str, _Created] = OrderedDict()
        self._counted: OrderedDict[str, _Created] = OrderedDict()
        # By the largest network, so that a client with many of them is looked at, too.
        self._of_network: dict[str, OrderedDict[str, None]] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """Count the voices that are remembered."""
        return len(self._created)

    async def update_outcomes(self, client: str) -> None:
        """Look what became of voices of a client's network.

        Raises:
            Problem: `rate_limited`: too many voices of the client have no end.
        """
        if not self._in_progress:
            return
        self._forget_old()
        await asyncio.gather(*map(self._look_at, self._due(client)))
        # A large network may have no more than an address: all of them may be converted at once.
        if any(self._counts[network] >= self._in_progress for _, network in networks_of(client)):
            raise self._limits.too_many_voices(self._in_progress)

    def remember(self, client: str, voice_id: str) -> None:
        """Remember a voice that a client has created."""
        if not self._in_progress:
            return
        created = self._created[voice_id] = _Created(client, self._now())
        self._of_network.setdefault(created.networks[0], OrderedDict())[voice_id] = None
        self._counted[voice_id] = created
        self._counts.update(created.networks)
        if len(self._created) > MOST_VOICES:
            self._forget(next(iter(self._created)))

    def ended(self, voice: Voice) -> None:
        """Count a voice that is done or failed, if it was created here."""
        created = self._forget(voice.voice_id)
        if created is None or voice.error is None:
            return
        if voice.error.code in SUSPICIOUS:
            self._limits.charge(created.client)
        elif voice.error.code is ErrorCode.INTERNAL:
            self._limits.give_back(created.client)

    def erased(self, voice: Voice) -> None:
        """Count a voice that is being erased, if it was created here.

        What is erased while it is converted may be anything, and leaves nothing to look at.
        """
        if voice.status in {Status.QUEUED, Status.CONVERTING}:
            created = self._forget(voice.voice_id)
            if created:
                self._limits.charge(created.client)
        else:
            self.ended(voice)

    def _due(self, client: str) -> list[str]:
        """Return the voices to look at; they are the last to be looked at again."""
        network = networks_of(client)[0][1]
        known = self._of_network.get(network, OrderedDict())
        due = list(known)[:LOOKS]
        for voice_id in due:
            known.move_to_end(voice_id)
        return due

    async def _look_at(self, voice_id: str) -> None:
        try:
            voice = (await self._voices.read(voice_id)).voice
        except (UnknownVoiceError, UnreadableVoiceError):
            self._forget(voice_id)
            return
        except StoreUnavailableError:
            return
        if voice.status.is_final:
            self.ended(voice)

    def _forget_old(self) -> None:
        now = self._now()
        for voice_id in _older(self._counted, now - IN_PROGRESS_SECONDS):
            self._count_no_more(voice_id)
        for voice_id in _older(self._created, now - self._seconds):
            self._forget(voice_id)

    def _count_no_more(self, voice_id: str) -> None:
        created = self._counted.pop(voice_id, None)
        for network in created.networks if created else ():
            self._counts[network] -= 1
            if not self._counts[network]:
                del self._counts[network]

    def _forget(self, voice_id: str) -> _Created | None:
        # Another request may have looked at it at the same time.
        created = self._created.pop(voice_id, None)
        if created is None:
            return None
        self._count_no_more(voice_id)
        network = created.networks[0]
        of_network = self._of_network[network]
        del of_network[voice_id]
        if not of_network:
            del self._of_network[network]
        return created


def _older(created: Mapping[str, _Created], end: float) -> list[str]:
    """List the voices that were created before a time, the oldest first."""
    return [voice_id for voice_id, _ in takewhile(lambda one: one[1].at <= end, created.items())]
