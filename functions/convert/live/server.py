"""The HTTP/1.1 server of `live`.

Two things about Hypercorn are changed here, both against clients that want its memory:

- It accepts the extension permessage-deflate from every client that offers it, and expands a whole
  frame before it looks at the limit of a message. 64 KiB can expand to 64 MiB, and sound does not
  shrink. There is no option for this, so the handshake's class is replaced.
- It waits for ever for a client that does not read. The system ends such a connection
  (`TCP_USER_TIMEOUT`, RFC 5482), where the system is Linux.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, Final

from hypercorn.config import Config
from hypercorn.protocol import ws_stream

from functions.convert.live.protocol import LARGEST_MESSAGE

if TYPE_CHECKING:
    from functions.convert.live.settings import LiveSettings

UNREAD_SECONDS: Final = 20.0
"""After how long the system ends the connection of a client that does not read."""

MOST_QUEUED_MESSAGES: Final = 4
"""How many messages of one client wait to be handled; the next ones wait in the network."""


class UncompressedHandshake(ws_stream.Handshake):
    """A handshake that accepts no extension."""

    def __init__(self, headers: list[tuple[bytes, bytes]], http_version: str) -> None:
        super().__init__(headers, http_version)
        self.extensions = None


def decline_compression() -> None:
    """Make every Hypercorn server of this process decline permessage-deflate."""
    ws_stream.Handshake = UncompressedHandshake  # type: ignore[misc]


def limit_clients(server: Config) -> None:
    """Set what a server allows the clients of `live`."""
    decline_compression()
    server.websocket_max_message_size = LARGEST_MESSAGE
    server.max_app_queue_size = MOST_QUEUED_MESSAGES


def server_config(config: LiveSettings) -> Config:
    """Return the server's settings; it listens at a socket that is open already.

    Raises:
        OSError: the address is taken.
    """
    listening = socket.create_server((config.host, config.port))
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Accepted connections inherit it.
        milliseconds = int(UNREAD_SECONDS * 1000)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    server = Config()
    server.bind = [f"fd://{listening.detach()}"]
    server.graceful_timeout = config.graceful_timeout
    server.keep_alive_timeout = config.keepalive
    limit_clients(server)
    server.errorlog = logging.getLogger("hypercorn")
    return server
