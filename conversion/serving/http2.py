"""HTTP/2 as the container speaks it: bounds what one connection may make the event loop do.

Hypercorn handles all frames that have arrived before anything else runs, and h2 answers every
SETTINGS and PING frame. 2 MB of such frames, which are small, kept the probe of liveness waiting
for seconds. Here a connection's bytes are handled in small pieces, between which others have their
turn, and a connection with many frames that belong to no request is closed.

Hypercorn 0.18 also ends a connection, and with it the requests of everybody whose front end shares
it, when the body of one request goes on after its answer, and for a method or a path that it cannot
read. Here the one request is reset.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import h2.events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hypercorn import protocol
from hypercorn.events import Closed, RawData
from hypercorn.protocol.h2 import H2Protocol

if TYPE_CHECKING:
    from hypercorn.events import Event

PIECE_BYTES: Final = 4096
"""How many bytes of a connection are handled at once: at most 455 empty frames."""

MOST_CONTROL_FRAMES: Final = 1000
"""How many frames may come on a connection that carry no request and no data of one."""

CONTROL_FRAMES_PER_REQUEST: Final = 16
"""How many more each request allows: its window updates and its share of pings and priorities."""


class BoundedH2Protocol(H2Protocol):
    """Hypercorn's HTTP/2, which refuses floods of frames."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._control_frames_left = MOST_CONTROL_FRAMES

    async def handle(self, event: Event) -> None:
        """Handle what has happened to the connection, its bytes piece by piece."""
        if not isinstance(event, RawData):
            await super().handle(event)
            return
        for begin in range(0, len(event.data), PIECE_BYTES):
            if self._control_frames_left < 0:
                return
            await super().handle(RawData(event.data[begin : begin + PIECE_BYTES]))
            await asyncio.sleep(0)

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        self._control_frames_left += sum(map(_allowance, events))
        if self._control_frames_left < 0:
            # Without the answers to the frames of the flood.
            self.connection.clear_outbound_data_buffer()
            self.connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            await self._flush()
            await self.send(Closed())
            return
        for event in events:
            if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
                self._reset(event.stream_id, ErrorCodes.NO_ERROR)
                size = event.flow_controlled_length
                self.connection.acknowledge_received_data(size, event.stream_id)
                await self._flush()
            elif isinstance(event, h2.events.RequestReceived) and not _is_readable(event):
                self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
                await self._flush()
            else:
                await super()._handle_events([event])

    def _reset(self, stream_id: int, reason: ErrorCodes) -> None:
        with suppress(ProtocolError):
            self.connection.reset_stream(stream_id, reason)


def use_bounded_http2() -> None:
    """Let Hypercorn use the class above; it has no setting for that."""
    setattr(protocol, H2Protocol.__name__, BoundedH2Protocol)


def _is_readable(event: h2.events.RequestReceived) -> bool:
    """Return whether a request has a method and a path that can be read."""
    said = dict(event.headers)
    return all(said.get(name, b"\xff").isascii() for name in (b":method", b":path"))


def _allowance(event: h2.events.Event) -> int:
    """Count the further control frames that an event allows; -1 for a control frame."""
    if isinstance(event, h2.events.RequestReceived):
        return CONTROL_FRAMES_PER_REQUEST
    if isinstance(event, h2.events.StreamEnded):
        return 0
    return 0 if isinstance(event, h2.events.DataReceived) and event.data else -1
