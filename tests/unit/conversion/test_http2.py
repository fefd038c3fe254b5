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

DATA = (8_000).to_bytes(3, "big") + bytes([0, 0, 0, 0, 0, 1]) + bytes(8_000)
"""A part of the body of request 1."""
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
    address = [(":authority", "a"), (":path", "/healthz"), (":scheme", "http")]
    client.send_headers(stream, [(":method", "GET"), *address], end_stream=True)
    return await answer_to(client, connection, stream)


async def answer_to(client: h2.connection.H2Connection, connection: Any, stream: int) -> int:
    """Return the status of the answer to one request; see ask."""
    reader, writer = connection
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
            if isinstance(event, h2.events.StreamEnded) and event.stream_id == stream:
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


async def test_the_rest_of_a_body_after_the_answer_ends_no_other_request() -> None:
    """A front end sends the requests of many clients over one connection."""
    client = a_client()
    async with served() as port, asyncio.timeout(20):
        connection = await connected(port)
        address = [(":authority", "a"), (":path", "/nothing"), (":scheme", "http")]
        client.send_headers(1, [(":method", "POST"), *address])
        assert await answer_to(client, connection, 1) == 404
        for _ in range(40):
            # Together more than the connection's window, which must be given back.
            connection[1].write(DATA)
            assert await ask(client, connection, client.get_next_available_stream_id()) == 204
        connection[1].close()


@pytest.mark.parametrize(
    "headers",
    [
        [(":method", "GET"), (":authority", "a"), (":scheme", "http"), (b":path", b"/\xff\xfe")],
        [(b":method", b"\xff"), (":authority", "a"), (":scheme", "http"), (":path", "/healthz")],
        [(":method", "CONNECT"), (":authority", "a:443")],
    ],
    ids=["path", "method", "no path"],
)
async def test_a_request_that_cannot_be_read_ends_no_other_request(headers: list[Any]) -> None:
    configuration = h2.config.H2Configuration(
        client_side=True, validate_outbound_headers=False, normalize_outbound_headers=False
    )
    client = h2.connection.H2Connection(configuration)
    client.initiate_connection()
    async with served() as port, asyncio.timeout(20):
        connection = await connected(port)
        assert await ask(client, connection, 1) == 204
        client.send_headers(3, headers, end_stream=True)
        assert await ask(client, connection, 5) == 204
        connection[1].close()
