"""A connection that floods the container with frames is closed, and others are answered."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import h2.config
import h2.connection
import h2.events
import hypercorn.protocol
import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config
from hypercorn.protocol.h2 import H2Protocol
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from conversion.serving.http2 import MOST_CONTROL_FRAMES, use_bounded_http2
from infra.local.configuration.ports import Ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from hypercorn.typing import ASGIFramework
    from starlette.requests import Request

SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8)
PRIORITY = b"\x00\x00\x05\x02\x00\x00\x00\x00\x03" + bytes(5)
UNKNOWN = b"\x00\x00\x00\xee\x00\x00\x00\x00\x00"
WINDOW_UPDATE = b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01"


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hypercorn.protocol, "H2Protocol", H2Protocol)
        use_bounded_http2()
        yield


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    """Serve `/healthz`; yield the port."""

    async def healthz(_request: Request) -> Response:
        return Response(status_code=204)

    with Ports() as ports:
        (port,) = ports.free(1)
        config, stop = Config(), asyncio.Event()
        config.bind = [f"127.0.0.1:{port}"]
        app = cast("ASGIFramework", Starlette(routes=[Route("/healthz", healthz)]))
        serving = asyncio.create_task(serve(app, config, shutdown_trigger=cast("Any", stop.wait)))
        try:
            yield port
        finally:
            stop.set()
            await serving


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)


async def ask(client: h2.connection.H2Connection, connection: Any, stream: int) -> int:
    """Send one request over an open connection; return the status of its answer.

    Raises:
        ConnectionError: the server has closed the connection.
    """
    reader, writer = connection
    address = [(":authority", "a"), (":path", "/healthz"), (":scheme", "http")]
    client.send_headers(stream, [(":method", "GET"), *address], end_stream=True)
    status = 0
    while True:
        writer.write(client.data_to_send())
        if not (received := await reader.read(65_536)):
            raise ConnectionError("closed")
        for event in client.receive_data(received):
            if isinstance(event, h2.events.ConnectionTerminated):
                raise ConnectionError(str(event.error_code))
            if isinstance(event, h2.events.ResponseReceived):
                status = int(dict(event.headers)[b":status"])
            if isinstance(event, h2.events.StreamEnded):
                return status


def a_client() -> h2.connection.H2Connection:
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    client.initiate_connection()
    return client


@pytest.mark.parametrize("frame", [SETTINGS, PING, PRIORITY, UNKNOWN, WINDOW_UPDATE])
async def test_a_connection_that_sends_only_control_frames_is_closed(frame: bytes) -> None:
    async with served() as port:
        flooding, other = await connected(port), await connected(port)
        client = a_client()
        flooding[1].write(client.data_to_send() + frame * (2 * MOST_CONTROL_FRAMES))

        with pytest.raises(ConnectionError):
            await ask(client, flooding, 1)
        assert await ask(a_client(), other, 1) == 204

        for _, writer in (flooding, other):
            writer.close()


async def test_a_connection_with_many_requests_and_their_frames_stays_open() -> None:
    client = a_client()
    async with served() as port:
        connection = await connected(port)
        for number in range(MOST_CONTROL_FRAMES // 8):
            for _ in range(12):
                client.ping(bytes(8))
            assert await ask(client, connection, 2 * number + 1) == 204
        connection[1].close()
