"""WebSockets of Hypercorn, with bounds for clients that want the server's memory.

Hypercorn 0.18 has no option for what is changed here, so one of its classes is replaced.

- It accepts the extension permessage-deflate from every client that offers it, and expands a whole
  frame before it looks at the limit of a message. 64 KiB can expand to 64 MiB, and neither sound
  nor short texts shrink. Here no extension is accepted.
- When a message is too large it says so, but goes on reading and keeping it. Here the connection
  ends.
- It handles all frames that have arrived before anything else runs: 64 KiB of empty ones held the
  loop for a second. Here they are handled in small pieces, between which others have their turn,
  and a connection with many frames that carry nothing is closed.
- When the application has ended while messages wait for it, the connection is never closed. Here
  messages after the end are dropped.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from hypercorn.asyncio import run
from hypercorn.protocol import h2, h11
from hypercorn.protocol.events import Body, Data, StreamClosed
from hypercorn.protocol.ws_stream import WSStream
from wsproto.events import Event as Frame
from wsproto.events import Message, Ping, Pong

from conversion.serving.http2 import use_bounded_http2
from conversion.serving.requests import BoundedConnection, BoundedRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator

    from hypercorn.config import Config
    from hypercorn.protocol.events import Event
    from hypercorn.typing import ASGIReceiveEvent, ASGISendEvent, WebsocketAcceptEvent

LARGEST_MESSAGE: Final = 64 * 1024
"""The largest message from a client in bytes."""

MOST_QUEUED_MESSAGES: Final = 4
"""How many messages of one client wait to be handled; the next ones wait in the network."""


PIECE_BYTES: Final = 4096
"""How many bytes of a connection are handled at once: at most 682 empty frames."""

MOST_EMPTY_FRAMES: Final = 1000
"""How many pings, pongs and empty fragments may come between two messages."""


class BoundedStream(WSStream):
    """A WebSocket of Hypercorn whose client can make the server neither keep nor do much."""

    _empty_frames = 0

    async def handle(self, event: Event) -> None:
        """Handle what has happened to the connection, its bytes piece by piece."""
        if not isinstance(event, Body | Data) or not self.handshake.accepted:
            await super().handle(event)
            return
        for begin in range(0, len(event.data), PIECE_BYTES):
            if self._empty_frames > MOST_EMPTY_FRAMES:
                return
            await super().handle(replace(event, data=event.data[begin : begin + PIECE_BYTES]))
            await asyncio.sleep(0)

    async def app_send(self, message: ASGISendEvent | None) -> None:
        """Send what the application sends; after its end it receives only the connection's end."""
        if message is None:
            self.app_put = _drop
        elif message["type"] == "websocket.close" and self.app_put is not None:
            self.app_put = partial(_pass_the_end, self.app_put)
        await super().app_send(message)

    async def _accept(self, message: WebsocketAcceptEvent) -> None:
        self.handshake.extensions = None
        await super()._accept(message)
        events = self.connection.events
        self.connection.events = lambda: self._counted(events())  # type: ignore[method-assign]

    def _counted(self, events: Iterator[Frame]) -> Generator[Frame, None, None]:
        """Pass events on, until too many of them carried nothing."""
        for event in events:
            if isinstance(event, Message) and event.message_finished:
                self._empty_frames = 0
            elif isinstance(event, Ping | Pong) or (isinstance(event, Message) and not event.data):
                self._empty_frames += 1
            if self._empty_frames > MOST_EMPTY_FRAMES:
                return
            yield event

    async def _handle_events(self) -> None:
        await super()._handle_events()
        is_too_large = self.buffer.length > self.buffer.max_length
        if is_too_large or self._empty_frames > MOST_EMPTY_FRAMES:
            await self.send(StreamClosed(stream_id=self.stream_id))


async def _drop(_message: ASGIReceiveEvent) -> None:
    pass


async def _pass_the_end(
    put: Callable[[ASGIReceiveEvent], Awaitable[None]], message: ASGIReceiveEvent
) -> None:
    if message["type"] == "websocket.disconnect":
        await put(message)


def limit_clients(server: Config) -> None:
    """Bound what clients cost, for every Hypercorn server of this process."""
    for module in (h11, h2):
        module.WSStream = BoundedStream  # type: ignore[attr-defined]
        module.HTTPStream = BoundedRequest  # type: ignore[attr-defined]
    use_bounded_http2()
    run.TCPServer = BoundedConnection  # type: ignore[attr-defined]
    server.websocket_max_message_size = LARGEST_MESSAGE
    server.max_app_queue_size = MOST_QUEUED_MESSAGES
