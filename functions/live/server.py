"""The HTTP/1.1 server of `live`: Hypercorn, with bounds for clients that do not read.

It waits for ever for a client that does not read. Here the system ends such a connection
(`TCP_USER_TIMEOUT`, RFC 5482), where the system is Linux.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, Final

from hypercorn.config import Config

from conversion.serving.websockets import limit_clients

if TYPE_CHECKING:
    from functions.live.settings import LiveSettings

UNREAD_SECONDS: Final = 20.0
"""After how long the system ends the connection of a client that does not read."""


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; the system ends the connections that nobody reads.

    Raises:
        OSError: the address is taken.
    """
    listening = socket.create_server((host, port))
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Accepted connections inherit it.
        milliseconds = int(UNREAD_SECONDS * 1000)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return listening


def server_config(config: LiveSettings) -> Config:
    """Return the server's settings; it listens at a socket that is open already.

    Raises:
        OSError: the address is taken.
    """
    server = Config()
    server.bind = [f"fd://{listening_socket(config.host, config.port).detach()}"]
    server.graceful_timeout = config.graceful_timeout
    server.keep_alive_timeout = config.keepalive
    limit_clients(server)
    server.errorlog = logging.getLogger("hypercorn")
    return server
