"""The client of Cloud Storage, whose retries go over new connections.

A network can forget connections (a NAT that starts again, an instance that was frozen): what is
sent goes nowhere, and nobody says so. The library keeps several connections open and would try one
forgotten connection after the other.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

import requests
from google.cloud.storage import Client
from requests.adapters import HTTPAdapter

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTIONS: Final = 10
"""How many connections are kept open."""

_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""Seconds before the first probe of a silent connection, between probes, and how many probes.

Not every system has all of them. Probes also keep a NAT from forgetting an unused connection.
"""

_WITHOUT_BODY: Final = frozenset({requests.codes.no_content, requests.codes.not_modified})


def open_storage_client(project: str) -> Client:
    """Open a client for the project's buckets."""
    client = Client(project=project)
    # As Google's documentation changes the size of the pool; the library has no setting for it.
    client._http.mount("https://", RenewingAdapter())  # noqa: SLF001
    client._http.mount("http://", RenewingAdapter())  # noqa: SLF001 - the local storage server
    return client


class RenewingAdapter(HTTPAdapter):
    """Forgets all its connections that are not in use when one of them fails."""

    def __init__(self) -> None:
        super().__init__(pool_maxsize=CONNECTIONS)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        """Send a request; see HTTPAdapter.

        Raises:
            requests.ConnectionError: it could not be sent, or no answer came.
            requests.Timeout: no answer came in time.
        """
        try:
            response = super().send(request, **options)
            _require_whole_head(response)
        except (requests.ConnectionError, requests.Timeout):
            self.poolmanager.clear()
            raise
        return response

    def init_poolmanager(self, *arguments: Any, **settings: Any) -> None:
        """Make the pool of connections; see HTTPAdapter."""
        super().init_poolmanager(*arguments, **settings, socket_options=_socket_options())


def _require_whole_head(response: requests.Response) -> None:
    # http.client takes the end of the connection for the end of the headers.
    if response.status_code in _WITHOUT_BODY:
        return
    if not any(name in response.headers for name in ("content-length", "transfer-encoding")):
        response.close()
        raise requests.ConnectionError("the connection ended in the headers of the answer")


def _socket_options() -> Sequence[tuple[int, int, int]]:
    probes = ((getattr(socket, name, None), value) for name, value in _KEEPALIVE)
    return [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        *((socket.IPPROTO_TCP, option, value) for option, value in probes if option is not None),
    ]
