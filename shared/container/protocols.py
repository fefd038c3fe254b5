"""Hypercorn's HTTP/2, HTTP/1 and WebSockets, bounded in the work that one connection can cause.

Hypercorn handles all frames that have arrived before anything else runs: 2 MB of SETTINGS and PING
frames kept the probe of liveness waiting for seconds. Here bytes are handled in small pieces,
between which others have their turn, and a connection with many frames that belong to no request
is closed.

A client that begins requests and takes them back at once makes the application do all its work for
nothing (CVE-2023-44487); here its connection is closed after some hundred.

Hypercorn 0.18 also ends a connection, and with it the requests of everybody whose front end shares
it, when the body of one request goes on after its answer, and for a method or a path that it cannot
read. Here the one request is reset. It cuts all answers under way when a connection has had its
number of requests. Here further requests are refused, which lets clients send them again over
another connection (RFC 9113, section 6.8). And it lets the application go on with the answer to a
request that was taken back; here nothing waits for such an answer.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import h2.events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hypercorn import protocol
from hypercorn.asyncio import run
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Closed, RawData
from hypercorn.protocol import h2 as protocol_h2
from hypercorn.protocol import h11
from hypercorn.protocol.events import Body, Data, EndBody, Request, Response, StreamClosed
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import WSStream
from hyperframe.frame import GoAwayFrame
from wsproto.events import Event as Frame
from wsproto.events import Message

if TYPE_CHECKING:
    from collections.abc import Generator

    from hypercorn.config import Config
    from hypercorn.events import Event
    from hypercorn.events import Event as Sent
    from hypercorn.protocol.events import Event as StreamEvent
    from hypercorn.typing import ASGIReceiveEvent, ASGISendEvent, WebsocketAcceptEvent


_LOG = logging.getLogger(__name__)

PIECE_BYTES: Final = 4096  # handled at once: at most 455 empty frames
MOST_CONTROL_FRAMES: Final = 1000  # without a request or data of one, on one connection
CONTROL_FRAMES_PER_REQUEST: Final = 16  # more for each request: window updates, pings, priorities
MOST_RESETS: Final = 200  # requests taken back before their answer, beyond those answered whole
LARGEST_MESSAGE: Final = 64 * 1024  # the largest message from a client in bytes

MOST_QUEUED_MESSAGES: Final = 4  # of one client; the next ones wait in the network
MOST_EMPTY_FRAMES: Final = 1000  # the most pings, pongs and empty fragments between two messages


class BoundedH2Protocol(H2Protocol):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._control_frames_left = MOST_CONTROL_FRAMES
        self._resets_left = MOST_RESETS
        self._has_begun: dict[int, bool] = {}
        self._takes_no_more = False
        self._is_over = False

    async def handle(self, event: Event) -> None:
        if not isinstance(event, RawData):
            await super().handle(event)
            return
        for begin in range(0, len(event.data), PIECE_BYTES):
            if self._is_over:
                return
            await super().handle(RawData(event.data[begin : begin + PIECE_BYTES]))
            await asyncio.sleep(0)

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        self._control_frames_left += sum(map(allowance, events))
        try:
            if self._control_frames_left >= 0:
                await self._handle_while_bounded(events)
        except ProtocolError as error:
            # The frame before it has closed the connection.
            _LOG.info("a connection of HTTP/2 has ended: %s", error)
            await self._close()
        if min(self._control_frames_left, self._resets_left) < 0 and not self._is_over:
            _LOG.warning("closed a connection of HTTP/2 that was flooded with frames or resets")
            # Without the answers to the frames of the flood.
            self.connection.clear_outbound_data_buffer()
            self.connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            await self._flush()
            await self._close()

    async def _close(self) -> None:
        self._is_over = True
        await self.send(Closed())

    async def _handle_while_bounded(self, events: list[h2.events.Event]) -> None:
        # A request that came with its own end is not even begun.
        ended = {each.stream_id for each in events if isinstance(each, h2.events.StreamReset)}
        for event in events:
            if self._resets_left < 0:
                return
            has_had_all = self.keep_alive_requests >= self.config.keep_alive_max_requests
            takes_no_more = has_had_all or self.context.terminated.is_set()
            if isinstance(event, h2.events.RequestReceived) and event.stream_id in ended:
                continue
            if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
                size = event.flow_controlled_length
                self.connection.acknowledge_received_data(size, event.stream_id)
                await self._reset(event.stream_id, ErrorCodes.NO_ERROR)
            elif isinstance(event, h2.events.RequestReceived) and not is_readable(event):
                await self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
            elif isinstance(event, h2.events.RequestReceived) and takes_no_more:
                await self._refuse(event.stream_id)
            else:
                if isinstance(event, h2.events.RequestReceived):
                    self._has_begun[event.stream_id] = False
                await super()._handle_events([event])
                if isinstance(event, h2.events.StreamReset):
                    await self._forget(event.stream_id)

    async def stream_send(self, event: StreamEvent) -> None:
        if event.stream_id in self._has_begun:
            if isinstance(event, Response):
                self._has_begun[event.stream_id] = True
            elif isinstance(event, EndBody):
                del self._has_begun[event.stream_id]
                self._resets_left = min(self._resets_left + 1, MOST_RESETS)
        await super().stream_send(event)

    async def _forget(self, stream_id: int) -> None:
        """Count a request that was taken back, and let nothing wait until its answer is sent."""
        if not self._has_begun.pop(stream_id, False):
            self._resets_left -= 1
        if (waiting := self.stream_buffers.get(stream_id)) is not None:
            await waiting.close()

    async def _refuse(self, stream_id: int) -> None:
        """Refuse a request; its client may send it again over another connection."""
        self._resets_left -= 1
        if not self._takes_no_more:
            self._takes_no_more = True
            # Not with h2, which would send nothing more of the answers under way.
            last = GoAwayFrame(0, last_stream_id=max(0, stream_id - 2))
            await self.send(RawData(last.serialize()))
        await self._reset(stream_id, ErrorCodes.REFUSED_STREAM)

    async def _reset(self, stream_id: int, reason: ErrorCodes) -> None:
        with suppress(ProtocolError):
            self.connection.reset_stream(stream_id, reason)
        await self._flush()


def is_readable(event: h2.events.RequestReceived) -> bool:
    headers = dict(event.headers)
    return all(headers.get(name, b"\xff").isascii() for name in (b":method", b":path"))


def allowance(event: h2.events.Event) -> int:
    """Count the further control frames that an event allows; -1 for a control frame."""
    if isinstance(event, h2.events.RequestReceived):
        return CONTROL_FRAMES_PER_REQUEST
    if isinstance(event, h2.events.StreamEnded):
        return 0
    return 0 if isinstance(event, h2.events.DataReceived) and event.data else -1


class BoundedRequest(HTTPStream):
    """A request of Hypercorn, which is refused if its end is defined twice."""

    async def handle(self, event: StreamEvent) -> None:
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
    async def run(self) -> None:
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


class BoundedStream(WSStream):
    """A WebSocket of Hypercorn whose client can make the server neither keep nor do much."""

    _empty_frames = 0

    async def handle(self, event: StreamEvent) -> None:
        if not isinstance(event, Body | Data) or not self.handshake.accepted:
            await super().handle(event)
            return
        for begin in range(0, len(event.data), PIECE_BYTES):
            if self._empty_frames > MOST_EMPTY_FRAMES:
                return
            await super().handle(replace(event, data=event.data[begin : begin + PIECE_BYTES]))
            await asyncio.sleep(0)

    async def app_send(self, message: ASGISendEvent | None) -> None:
        """Send a message; after its end the application receives only the connection's end."""
        put = self.app_put

        async def put_the_end(received: ASGIReceiveEvent) -> None:
            if message is not None and put and received["type"] == "websocket.disconnect":
                await put(received)

        if message is None or (message["type"] == "websocket.close" and put is not None):
            self.app_put = put_the_end
        await super().app_send(message)

    async def _accept(self, message: WebsocketAcceptEvent) -> None:
        self.handshake.extensions = None
        await super()._accept(message)
        events = self.connection.events

        def count_events() -> Generator[Frame, None, None]:
            """Yield events, until too many of them carried nothing."""
            for event in events():
                if isinstance(event, Message) and event.message_finished:
                    self._empty_frames = 0
                elif not isinstance(event, Message) or not event.data:
                    self._empty_frames += 1
                if self._empty_frames > MOST_EMPTY_FRAMES:
                    return
                yield event

        self.connection.events = count_events  # type: ignore[method-assign]

    async def _handle_events(self) -> None:
        await super()._handle_events()
        is_too_large = self.buffer.length > self.buffer.max_length
        if is_too_large or self._empty_frames > MOST_EMPTY_FRAMES:
            await self.send(StreamClosed(stream_id=self.stream_id))


def limit_clients(server: Config) -> None:
    """Bound what clients cost, for every Hypercorn server of this process."""
    for module in (h11, protocol_h2):
        module.WSStream = BoundedStream  # type: ignore[attr-defined]
        module.HTTPStream = BoundedRequest  # type: ignore[attr-defined]
    setattr(protocol, H2Protocol.__name__, BoundedH2Protocol)
    run.TCPServer = BoundedConnection  # type: ignore[attr-defined]
    server.websocket_max_message_size = LARGEST_MESSAGE
    server.max_app_queue_size = MOST_QUEUED_MESSAGES
