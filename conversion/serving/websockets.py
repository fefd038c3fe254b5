"""WebSockets of Hypercorn, with bounds for clients that want the server's memory.

Hypercorn 0.18 has no option for what is changed here, so one of its classes is replaced.

- It accepts the extension permessage-deflate from every client that offers it, and expands a whole
  frame before it looks at the limit of a message. 64 KiB can expand to 64 MiB, and neither sound
  nor short texts shrink. Here no extension is accepted.
- When a message is too large it says so, but goes on reading and keeping it. Here the connection
  ends.
- When the application has ended while messages wait for it, the connection is never closed. Here
  messages after the end are dropped.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hypercorn.protocol import h2, h11
from hypercorn.protocol.events import StreamClosed
from hypercorn.protocol.ws_stream import WSStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn.config import Config
    from hypercorn.typing import ASGIReceiveEvent, ASGISendEvent, WebsocketAcceptEvent

LARGEST_MESSAGE: Final = 64 * 1024
"""The largest message from a client in bytes."""

MOST_QUEUED_MESSAGES: Final = 4
"""How many messages of one client wait to be handled; the next ones wait in the network."""


class BoundedStream(WSStream):
    """A WebSocket of Hypercorn whose client cannot make the server keep anything."""

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

    async def _handle_events(self) -> None:
        await super()._handle_events()
        if self.buffer.length > self.buffer.max_length:
            await self.send(StreamClosed(stream_id=self.stream_id))


async def _drop(_message: ASGIReceiveEvent) -> None:
    pass


async def _pass_the_end(
    put: Callable[[ASGIReceiveEvent], Awaitable[None]], message: ASGIReceiveEvent
) -> None:
    if message["type"] == "websocket.disconnect":
        await put(message)


def limit_clients(server: Config) -> None:
    """Bound what clients of WebSockets may do, for every Hypercorn server of this process."""
    for module in (h11, h2):
        module.WSStream = BoundedStream  # type: ignore[attr-defined]
    server.websocket_max_message_size = LARGEST_MESSAGE
    server.max_app_queue_size = MOST_QUEUED_MESSAGES
