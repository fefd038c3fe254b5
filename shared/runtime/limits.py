"""Clients, their networks, and how many places they may take at once."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.requests import HTTPConnection

# Hosts at which no load balancer of ours stands before a service.
PLATFORM_HOSTS: Final = (".cloudfunctions.net", ".run.app")

# The allowance of each kind of network as a multiple of one client's, the largest first. A
# connection has a /64, but providers hand out a /56 or a /48 with 256 or 65 536 of them (RFC 6177),
# which one client may have alone, so their allowances grow little. The empty kind is IPv4.
ALLOWANCES: Final[Mapping[str, int]] = MappingProxyType({"/48": 4, "/56": 2, "/64": 1, "": 1})


def network_of(connection: HTTPConnection, trusted_proxies: int) -> str:
    """Return the client that a connection counts for: an IPv4 address, or the /64 of an IPv6 one.

    Every proxy appends to `X-Forwarded-For`, so only the entries of `trusted_proxies`, the last
    ones, are true; the visitor may have written the others. An external Application Load Balancer
    writes two, the visitor's address and its own
    (https://docs.cloud.google.com/load-balancing/docs/https#x-forwarded-for_header). Cloud Run at
    its own address writes one, the visitor's; Google does not document this, but others have
    measured it. If entries are missing, the connection's own address counts.
    """
    host = connection.headers.get("host", "").partition(":")[0].rstrip(".").lower()
    if host.endswith(PLATFORM_HOSTS):
        trusted_proxies = min(trusted_proxies, 1)
    entries = ",".join(connection.headers.getlist("x-forwarded-for")).rsplit(",", trusted_proxies)
    if trusted_proxies and len(entries) >= trusted_proxies:
        forwarded = _network_of(entries[-trusted_proxies].strip())
        if forwarded is not None:
            return forwarded
    own = connection.client.host if connection.client else ""
    return _network_of(own) or own


def _network_of(text: str) -> str | None:
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return str(IPv6Network((int(address), 64), strict=False))
        address = address.ipv4_mapped
    return str(address)


def networks_of(client: str) -> list[tuple[str, str]]:
    """Return the networks of a client, each with its kind in `ALLOWANCES`, the largest first."""
    try:
        site = IPv6Network(client) if "/" in client else None
    except ValueError:
        site = None
    if site is None:
        return [("", client)]
    return [(kind, str(site.supernet(new_prefix=int(kind[1:])))) for kind in ALLOWANCES if kind]


class NoPlaceError(Exception):
    def __init__(self, most: int) -> None:
        super().__init__(f"all {most} places of this client or its network are taken")
        self.most = most


class PlacesPerClient:
    """Counts the places that clients use; `most` is one client's number, 0 for no limit."""

    def __init__(self, most: int, trusted_proxies: int) -> None:
        self._most = most
        self._trusted_proxies = trusted_proxies
        self._used: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._used)

    @contextmanager
    def hold_place(self, connection: HTTPConnection) -> Iterator[None]:
        """Hold a place while a request or a WebSocket lasts; `NoPlaceError` if none is left."""
        networks = networks_of(network_of(connection, self._trusted_proxies))
        for kind, network in networks:
            most = ALLOWANCES[kind] * self._most
            if most and self._used[network] >= most:
                raise NoPlaceError(most)
        counted = [network for _, network in networks]
        self._used.update(counted)
        try:
            yield
        finally:
            self._used.subtract(counted)
            for network in counted:
                if not self._used[network]:
                    del self._used[network]
