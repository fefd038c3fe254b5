"""How many requests one client may send to this instance, and how many may wait at a time.

Each instance counts for itself, so that no request waits for a counter elsewhere. The number of
instances limits what the whole service accepts.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from functions.api.problems import Problem
from shared.http.client_networks import ALLOWANCES, client_of, networks_of
from shared.http.places import NoPlaceError, PlacesPerClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request

MOST_CLIENTS: Final = 20_000
"""How many clients are remembered; this takes a few megabytes."""

WINDOW_SECONDS: Final = 60.0

WAITING_PAUSE_SECONDS: Final = 5
"""After how many seconds to come back with one more waiting request.

By then a conversion has usually ended.
"""

_ROUNDING_SECONDS: Final = 1e-6


class Limits:
    """Refuses clients that ask too often or wait too many times at once.

    Args:
        per_minute: how many requests a minute a client may send, also all at once; 0 for no limit.
        waiting: how many of a client's requests may wait at the same time; 0 for no limit.
        trusted_proxies: how many of our own proxies have written into `X-Forwarded-For`.
        now: a clock in seconds that never goes back.
    """

    def __init__(
        self,
        *,
        per_minute: int,
        waiting: int,
        trusted_proxies: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        # Each kind has buckets of its own: whoever invents addresses of one kind makes this
        # instance forget none of another.
        self._buckets = {
            kind: TokenBuckets(times * per_minute, now)
            for kind, times in ALLOWANCES.items()
            if per_minute
        }
        self._trusted_proxies = trusted_proxies
        self._waiting = PlacesPerClient(waiting, trusted_proxies)

    def admit(self, request: Request) -> None:
        """Count a request.

        Raises:
            Problem: `rate_limited`, with the seconds after which the client may try again.
        """
        if not self._buckets:
            return
        counted = [
            (self._buckets[kind], network)
            for kind, network in networks_of(client_of(request, self._trusted_proxies))
        ]
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

    @contextmanager
    def waiting(self, request: Request) -> Iterator[None]:
        """Count a request that waits, for as long as it waits.

        Raises:
            Problem: `rate_limited`: as many as allowed are waiting already.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(self._waiting.taken(request))
            except NoPlaceError as error:
                detail = (
                    f"{error.most} requests from your address or its network are waiting already; "
                    "please come back when one of them has been answered."
                )
                raise _rate_limited(detail, WAITING_PAUSE_SECONDS) from None
            yield


class TokenBuckets:
    """One token bucket per client, each refilled over a minute.

    This is the generic cell rate algorithm (ITU-T I.371, virtual scheduling): all that is kept of a
    bucket is the moment at which it will be full again. Full buckets are forgotten. When there are
    too many, the least recently used ones are forgotten, too, which bounds the memory; a client
    that is forgotten early may send more, not less.

    Args:
        per_minute: the size of a bucket.
        now: a clock in seconds that never goes back.
        most_clients: how many buckets are kept.
    """

    def __init__(
        self, per_minute: int, now: Callable[[], float], most_clients: int = MOST_CLIENTS
    ) -> None:
        self._interval = WINDOW_SECONDS / per_minute
        self._now = now
        self._most_clients = most_clients
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        """Return how many buckets are remembered."""
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

    def _missing(self, full_at: float, now: float) -> float:
        return full_at + self._interval - (now + WINDOW_SECONDS)

    def _forget(self, now: float) -> None:
        while len(self._full_at) > self._most_clients or next(iter(self._full_at.values())) <= now:
            self._full_at.popitem(last=False)


def _rate_limited(detail: str, seconds: int) -> Problem:
    return Problem(429, "rate_limited", detail, {"Retry-After": str(seconds)})
