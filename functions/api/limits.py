"""How many requests one client may send to this instance, and how many may wait at a time.

Each instance counts for itself, so that no request waits for a counter elsewhere. The number of
instances limits what the whole service accepts.
"""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

from functions.api.problems import Problem

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
_SITE_PREFIX: Final = 64


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
        self._tokens = TokenBuckets(per_minute, now) if per_minute else None
        self._most_waiting = waiting
        self._trusted_proxies = trusted_proxies
        self._waiting: Counter[str] = Counter()

    def admit(self, request: Request) -> None:
        """Count a request.

        Raises:
            Problem: `rate_limited`, with the seconds after which the client may try again.
        """
        if self._tokens is None:
            return
        pause = self._tokens.take(client_of(request, self._trusted_proxies))
        if pause > 0:
            seconds = math.ceil(pause)
            detail = f"Too many requests came from your address; please wait {seconds} s."
            raise _rate_limited(detail, seconds)

    @contextmanager
    def waiting(self, request: Request) -> Iterator[None]:
        """Count a request that waits, for as long as it waits.

        Raises:
            Problem: `rate_limited`: as many as allowed are waiting already.
        """
        client = client_of(request, self._trusted_proxies)
        if self._most_waiting and self._waiting[client] >= self._most_waiting:
            detail = (
                f"{self._most_waiting} requests from your address are waiting already; "
                "please come back when one of them has been answered."
            )
            raise _rate_limited(detail, WAITING_PAUSE_SECONDS)
        self._waiting[client] += 1
        try:
            yield
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]


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

    def take(self, client: str) -> float:
        """Take a token; return 0, or the seconds until there is one again."""
        now = self._now()
        full_at = max(now, self._full_at.pop(client, now))
        missing = full_at + self._interval - (now + WINDOW_SECONDS)
        is_empty = missing > _ROUNDING_SECONDS
        self._full_at[client] = full_at if is_empty else full_at + self._interval
        self._forget(now)
        return missing if is_empty else 0.0

    def _forget(self, now: float) -> None:
        while len(self._full_at) > self._most_clients or next(iter(self._full_at.values())) <= now:
            self._full_at.popitem(last=False)


def client_of(request: Request, trusted_proxies: int) -> str:
    """Return the client that a request counts for: an IPv4 address, or an IPv6 network.

    Every proxy appends to `X-Forwarded-For`, so only the last entries can be trusted. An external
    Application Load Balancer writes two, the visitor's address and its own
    (https://docs.cloud.google.com/load-balancing/docs/https#x-forwarded-for_header). Cloud Run
    reached at its own address writes one, the visitor's; Google does not document this, but others
    have measured it. The entries before come from the visitor and may contain anything. A visitor
    with one IPv6 address has all 2^64 of its network, so the network counts as one client.

    Args:
        request: the request.
        trusted_proxies: how many of the last entries our own proxies have written. With 0, or if
            entries are missing, the connection's own address counts.
    """
    entries = ",".join(request.headers.getlist("x-forwarded-for")).rsplit(",", trusted_proxies)
    if trusted_proxies and len(entries) >= trusted_proxies:
        forwarded = _network_of(entries[-trusted_proxies].strip())
        if forwarded is not None:
            return forwarded
    own = request.client.host if request.client else ""
    return _network_of(own) or own


def _network_of(text: str) -> str | None:
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return str(IPv6Network((int(address), _SITE_PREFIX), strict=False))
        address = address.ipv4_mapped
    return str(address)


def _rate_limited(detail: str, seconds: int) -> Problem:
    return Problem(429, "rate_limited", detail, {"Retry-After": str(seconds)})
