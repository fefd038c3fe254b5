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
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from functions.api.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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

ALLOWANCES: Final[Mapping[str, int]] = MappingProxyType({"/48": 16, "/56": 4, "/64": 1, "": 1})
"""How many times the allowance of one client each kind of network has, the largest first.

A visitor's connection has a /64, but providers hand out a /56 or a /48, which holds 256 or 65 536
of them (RFC 6177). The empty kind is one IPv4 address.
"""


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
        self._most_waiting = waiting
        self._trusted_proxies = trusted_proxies
        self._waiting: Counter[str] = Counter()

    def admit(self, request: Request) -> None:
        """Count a request.

        Raises:
            Problem: `rate_limited`, with the seconds after which the client may try again.
        """
        if not self._buckets:
            return
        counted = [
            (self._buckets[kind], network)
            for kind, network in _networks_of(client_of(request, self._trusted_proxies))
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
        networks = _networks_of(client_of(request, self._trusted_proxies))
        for kind, network in networks:
            most = ALLOWANCES[kind] * self._most_waiting
            if most and self._waiting[network] >= most:
                detail = (
                    f"{most} requests from your address or its network are waiting already; "
                    "please come back when one of them has been answered."
                )
                raise _rate_limited(detail, WAITING_PAUSE_SECONDS)
        counted = [network for _, network in networks]
        self._waiting.update(counted)
        try:
            yield
        finally:
            self._waiting.subtract(counted)
            for network in counted:
                if not self._waiting[network]:
                    del self._waiting[network]


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


def client_of(request: Request, trusted_proxies: int) -> str:
    """Return the client that a request counts for: an IPv4 address, or an IPv6 network.

    Every proxy appends to `X-Forwarded-For`, so only the last entries can be trusted. An external
    Application Load Balancer writes two, the visitor's address and its own
    (https://docs.cloud.google.com/load-balancing/docs/https#x-forwarded-for_header). Cloud Run
    reached at its own address writes one, the visitor's; Google does not document this, but others
    have measured it. The entries before come from the visitor and may contain anything. A visitor
    with one IPv6 address has all 2^64 of its network, so the network counts as one client; the
    larger networks around it are counted, too (`ALLOWANCES`).

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


def _networks_of(client: str) -> list[tuple[str, str]]:
    """Return the networks that a client counts for, each with its kind, the largest first."""
    try:
        site = IPv6Network(client) if "/" in client else None
    except ValueError:
        site = None
    if site is None:
        return [("", client)]
    return [(kind, str(site.supernet(new_prefix=int(kind[1:])))) for kind in ALLOWANCES if kind]


def _rate_limited(detail: str, seconds: int) -> Problem:
    return Problem(429, "rate_limited", detail, {"Retry-After": str(seconds)})
