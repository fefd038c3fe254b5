"""How many places each client may take at the same time, and the networks around it."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shared.http.client_networks import ALLOWANCES, client_of, networks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import HTTPConnection


class NoPlaceError(Exception):
    """A client or its network has taken all its places.

    Attributes:
        most: how many places that are.
    """

    def __init__(self, most: int) -> None:
        super().__init__(f"all {most} places of this client or its network are taken")
        self.most = most


class PlacesPerClient:
    """Counts the places that clients have taken.

    Args:
        most: how many places one client has; 0 for no limit.
        trusted_proxies: how many of our own proxies have written into `X-Forwarded-For`.
    """

    def __init__(self, most: int, trusted_proxies: int) -> None:
        self._most = most
        self._trusted_proxies = trusted_proxies
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        """Count the networks that have taken a place."""
        return len(self._taken)

    @contextmanager
    def taken(self, connection: HTTPConnection) -> Iterator[None]:
        """Take a place for a request or a WebSocket, for as long as it lasts.

        Raises:
            NoPlaceError: its client, or a network around it, has no place left.
        """
        networks = networks_of(client_of(connection, self._trusted_proxies))
        for kind, network in networks:
            most = ALLOWANCES[kind] * self._most
            if most and self._taken[network] >= most:
                raise NoPlaceError(most)
        counted = [network for _, network in networks]
        self._taken.update(counted)
        try:
            yield
        finally:
            self._taken.subtract(counted)
            for network in counted:
                if not self._taken[network]:
                    del self._taken[network]
