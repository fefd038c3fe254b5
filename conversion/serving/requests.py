"""Requests of Hypercorn whose clients may leave, or lie about where they end.

Hypercorn 0.18 has no option for what is changed here.

- It goes on writing to a connection that is gone. asyncio logs each such write, so one client could
  fill the log: 1,700 lines for an answer of 57 MB in pieces of 32 KiB. Here nothing is written.
- It serves a request that has both a length and chunks, and uses its connection again. A proxy that
  believes the length would take what follows for another client's request (RFC 9112, section 6.1).
  Here such a request is refused and its connection closed.
- An error of its own that ends one connection ends the whole process once the server stops, with
  the answers on all other connections. Here the one connection ends, with one entry in the log.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import RawData
from hypercorn.protocol.events import EndBody, Request, Response, StreamClosed
from hypercorn.protocol.http_stream import HTTPStream

if TYPE_CHECKING:
    from hypercorn.events import Event as Sent
    from hypercorn.protocol.events import Event

_LOG = logging.getLogger(__name__)


class BoundedRequest(HTTPStream):
    """A request of Hypercorn that says once where it ends."""

    async def handle(self, event: Event) -> None:
        """Handle what has happened to the connection."""
        if isinstance(event, Request):
            names = {name.lower() for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                self.closed = True
                headers = [(b"content-length", b"0"), (b"connection", b"close")]
                await self.send(Response(self.stream_id, headers, HTTPStatus.BAD_REQUEST))
                await self.send(EndBody(self.stream_id))
                await self.send(StreamClosed(self.stream_id))
                return
        await super().handle(event)


class BoundedConnection(TCPServer):
    """A connection of Hypercorn to which nothing is written when it is gone."""

    async def run(self) -> None:
        """Serve the connection to its end, and let no error leave it."""
        try:
            await super().run()
        except Exception as error:  # noqa: BLE001 - others must not lose their answers for it
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            _LOG.error("a connection has ended with an error of the server", exc_info=error)

    async def protocol_send(self, event: Sent) -> None:
        """Send bytes, unless nobody can get them; a client that only sends no more still can."""
        if not isinstance(event, RawData) or not self.writer.is_closing():
            await super().protocol_send(event)
