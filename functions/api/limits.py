"""Limits of the requests of one client: how many per minute, and how many at the same time.

Each instance counts for itself, so that no request waits for a counter elsewhere.
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
    from contextlib import AbstractContextManager

    from starlette.requests import Request

    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice


MOST_CLIENTS: Final = 20_000  # remembered, in a few megabytes
WINDOW_SECONDS: Final = 60.0
AT_ONCE: Final = 12  # a twelfth of a minute's requests may come at once, also of a large network
PATIENCE_SECONDS: Final = 5.0  # for a turn: a class behind one address is slowed, not refused
# The `Retry-After` of a refused waiting request and of a refused voice: by then some have ended.
WAITING_PAUSE_SECONDS: Final = 5
VOICES_PAUSE_SECONDS: Final = 10
FAILED_COSTS: Final = 10  # requests that a suspicious failed recording counts for, beside its own
# The longest additional pause of a client because of failed recordings; a network's is shorter.
MOST_PAUSE_SECONDS: Final = 5.0
_ROUNDING_SECONDS: Final = 1e-6


class RequestLimits:
    """Refuses clients that send too many requests; 0 `per_minute` or `waiting` means no limit."""

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
        # Each kind has buckets of its own, so that invented addresses of one kind make this
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
        return network_of(request, self._trusted_proxies)

    def admit(self, request: Request) -> None:
        """Count a request, or raise the `Problem` `rate_limited`."""
        counted = self._buckets_of(self.client_of(request))
        # A token is taken only if all of them have one, so that a refused request neither costs
        # nor makes this instance remember anything more.
        empty = next(((b, network) for b, network in counted if b.pause(network) > 0), None)
        if empty is not None:
            buckets, network = empty
            seconds = math.ceil(buckets.take(network))
            detail = f"Too many requests came from your address; please wait {seconds} s."
            raise _rate_limited(detail, seconds)
        for buckets, network in counted:
            buckets.take(network)

    async def admit_in_turn(self, request: Request) -> None:
        """Count a request as `admit`, but let it wait for its turn if that comes soon."""
        counted = self._buckets_of(self.client_of(request))
        pause = max((buckets.pause(network) for buckets, network in counted), default=0.0)
        if not 0 < pause <= self._patience:
            self.admit(request)
            return
        for buckets, network in counted:
            # The turn is taken now, so that later requests wait longer.
            buckets.charge(network, 1, WINDOW_SECONDS)
        await self._sleep(pause)

    def _buckets_of(self, client: str) -> list[tuple[TokenBuckets, str]]:
        if not self._buckets:
            return []
        return [(self._buckets[kind], network) for kind, network in networks_of(client)]

    def charge(self, client: str) -> None:
        """Count a client's recording that failed as those of an attacker do."""
        for kind, network in networks_of(client) if self._buckets else ():
            # Beyond what requests that wait for their turn have taken in advance.
            pause = self._patience + MOST_PAUSE_SECONDS / ALLOWANCES[kind]
            self._buckets[kind].charge(network, FAILED_COSTS, pause)

    def give_back(self, client: str) -> None:
        for buckets, network in self._buckets_of(client):
            buckets.give_back(network)

    def waiting(self, request: Request) -> AbstractContextManager[None]:
        """Count a waiting request, or raise the `Problem` `rate_limited`."""
        return _take_place(self._waiting, request, "requests", "are waiting")

    def uploading(self, request: Request) -> AbstractContextManager[None]:
        """Count an upload through the api, or raise the `Problem` `rate_limited`."""
        return _take_place(self._uploading, request, "recordings", "are being uploaded")


@contextmanager
def _take_place(
    places: PlacesPerClient, request: Request, things: str, are_doing: str
) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(places.hold_place(request))
        except NoPlaceError as error:
            detail = (
                f"{error.most} {things} from your address or its network {are_doing} already; "
                "please come back when one of them has been answered."
            )
            raise _rate_limited(detail, WAITING_PAUSE_SECONDS) from None
        yield


class TokenBuckets:
    """Token buckets of clients, by the generic cell rate algorithm (ITU-T I.371).

    It stores only the moment at which a bucket will be full again, and forgets full buckets. When
    there are too many, the least recently used ones are forgotten, too; such a client may send
    more, not less. `at_once` is the size of a bucket.
    """

    def __init__(
        self,
        per_minute: int,
        now: Callable[[], float],
        *,
        at_once: int | None = None,
    ) -> None:
        self._interval = WINDOW_SECONDS / per_minute
        self._window = (at_once or per_minute) * self._interval
        self._now = now
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def pause(self, client: str) -> float:
        """Return the seconds until there is a token; take none."""
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
        """Take tokens after the fact, but empty the bucket for at most `most_pause` seconds."""
        now = self._now()
        full_at = max(now, self._full_at.pop(client, now))
        most = max(full_at, now + self._window - self._interval + most_pause)
        self._full_at[client] = min(full_at + tokens * self._interval, most)
        self._forget(now)

    def give_back(self, client: str) -> None:
        if client in self._full_at:
            self._full_at[client] -= self._interval

    def _missing(self, full_at: float, now: float) -> float:
        return full_at + self._interval - (now + self._window)

    def _forget(self, now: float) -> None:
        while len(self._full_at) > MOST_CLIENTS or next(iter(self._full_at.values())) <= now:
            self._full_at.popitem(last=False)


def _rate_limited(detail: str, seconds: int) -> Problem:
    return Problem(429, "rate_limited", detail, {"Retry-After": str(seconds)})


LOOKS: Final = 4  # earlier voices that are read for each new one: more than are created meanwhile
MOST_VOICES: Final = 20_000  # remembered, in a few megabytes
# The time for which a voice without an end counts: clients may abandon a recording silently.
IN_PROGRESS_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Created:
    client: str
    networks: list[str]
    at: float


class VoiceOutcomes:
    """Remembers voices for some seconds, and makes suspicious failures count for more.

    `in_progress` is the number of the last minute's voices that one client, or its /48, may have
    without an end; 0: no limit, and nothing is remembered.
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
        return len(self._created)

    async def update_outcomes(self, client: str) -> None:
        """Read some earlier voices of a client's network, and refuse it if too many have no end."""
        if not self._in_progress:
            return
        now = self._now()
        for voice_id in _older(self._counted, now - IN_PROGRESS_SECONDS):
            self._stop_counting(voice_id)
        for voice_id in _older(self._created, now - self._seconds):
            self._forget(voice_id)
        networks = [network for _, network in networks_of(client)]
        known = self._of_network.get(networks[0], OrderedDict())
        due = list(known)[:LOOKS]
        for voice_id in due:
            # They are the last to be read again.
            known.move_to_end(voice_id)
        await asyncio.gather(*map(self._update, due))
        # A large network may have no more than an address: all of them may be converted at once.
        if any(self._counts[network] >= self._in_progress for network in networks):
            detail = (
                f"{self._in_progress} voices from your address or its network wait for their "
                f"recording or are being converted; please wait {VOICES_PAUSE_SECONDS} s."
            )
            raise _rate_limited(detail, VOICES_PAUSE_SECONDS)

    def remember(self, client: str, voice_id: str) -> None:
        if not self._in_progress:
            return
        networks = [network for _, network in networks_of(client)]
        created = self._created[voice_id] = _Created(client, networks, self._now())
        self._of_network.setdefault(created.networks[0], OrderedDict())[voice_id] = None
        self._counted[voice_id] = created
        self._counts.update(created.networks)
        if len(self._created) > MOST_VOICES:
            self._forget(next(iter(self._created)))

    def count_ended(self, voice: Voice) -> None:
        """Count a voice that has ended, if it was created here."""
        created = self._forget(voice.voice_id)
        if created is None or voice.error is None:
            return
        if voice.error.code in SUSPICIOUS:
            self._limits.charge(created.client)
        elif voice.error.code is ErrorCode.INTERNAL:
            self._limits.give_back(created.client)

    def count_erased(self, voice: Voice) -> None:
        """Count a voice that is being erased; under conversion it may be hostile."""
        if voice.status not in {Status.QUEUED, Status.CONVERTING}:
            self.count_ended(voice)
        elif created := self._forget(voice.voice_id):
            self._limits.charge(created.client)

    async def _update(self, voice_id: str) -> None:
        try:
            voice = (await self._voices.read(voice_id)).voice
        except (UnknownVoiceError, UnreadableVoiceError):
            self._forget(voice_id)
            return
        except StoreUnavailableError:
            return
        if voice.status.is_final:
            self.count_ended(voice)

    def _stop_counting(self, voice_id: str) -> None:
        created = self._counted.pop(voice_id, None)
        for network in created.networks if created else ():
            self._counts[network] -= 1
            if not self._counts[network]:
                del self._counts[network]

    def _forget(self, voice_id: str) -> _Created | None:
        # Another request may have read it at the same time.
        created = self._created.pop(voice_id, None)
        if created is None:
            return None
        self._stop_counting(voice_id)
        network = created.networks[0]
        of_network = self._of_network[network]
        del of_network[voice_id]
        if not of_network:
            del self._of_network[network]
        return created


def _older(created: Mapping[str, _Created], end: float) -> list[str]:
    return [voice_id for voice_id, _ in takewhile(lambda one: one[1].at <= end, created.items())]
