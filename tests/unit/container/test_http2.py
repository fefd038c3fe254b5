"""A connection that floods the container with frames is closed, and others are answered."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import h2.config
import h2.connection
import h2.events
import pytest
from h2.errors import ErrorCodes
from hypercorn.config import Config
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, RstStreamFrame
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from shared.container.protocols import MOST_CONTROL_FRAMES, MOST_RESETS
from tests.unit.container.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

BODY_OF_1 = (8_000).to_bytes(3, "big") + bytes([0, 0, 0, 0, 0, 1]) + bytes(8_000)
FLOODS = {
    "SETTINGS": b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "PING": b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8),
    "unknown": b"\x00\x00\x00\xee\x00\x00\x00\x00\x00",
}
LARGE = 200_000  # more bytes than a connection takes whose client reads nothing


@asynccontextmanager
async def served(
    release: asyncio.Event | None = None, ended: asyncio.Event | None = None, requests: int = 1000
) -> AsyncIterator[int]:
    """Yield the port; `release` lets `/slow` answer, `ended` is set at the end of `/large`."""

    async def healthz(_request: Request) -> Response:
        return Response(status_code=204)

    async def slow(_request: Request) -> Response:
        assert release is not None
        await release.wait()
        return Response(b"done", 203)

    class Large(Response):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            assert ended is not None
            await super().__call__(scope, receive, send)
            ended.set()

    async def large(_request: Request) -> Response:
        return Large(bytes(LARGE))

    routes = [Route("/healthz", healthz), Route("/slow", slow), Route("/large", large)]
    config = Config()
    config.keep_alive_max_requests = requests
    async with serving(Starlette(routes=routes), config) as port:
        yield port


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


def begin(client: h2.connection.H2Connection, stream: int, path: str = "/healthz") -> None:
    address = [(":authority", "a"), (":path", path), (":scheme", "http")]
    client.send_headers(stream, [(":method", "GET"), *address], end_stream=True)


async def ask(client: h2.connection.H2Connection, connection: Any, stream: int) -> int:
    begin(client, stream)
    return await answer_to(client, connection, stream)


async def answer_to(client: h2.connection.H2Connection, connection: Any, stream: int) -> int:
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


@pytest.mark.parametrize("frame", FLOODS.values(), ids=FLOODS)
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
            connection[1].write(BODY_OF_1)
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


async def test_a_connection_whose_requests_are_taken_back_at_once_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = a_client()
    async with served() as port, asyncio.timeout(20):
        for number in range(2 * MOST_RESETS):
            begin(client, 2 * number + 1)
            client.reset_stream(2 * number + 1)
        flooding, other = await connected(port), await connected(port)
        with caplog.at_level(logging.INFO), pytest.raises(ConnectionError, match="11"):
            await answer_to(client, flooding, 4 * MOST_RESETS + 1)
        assert await ask(a_client(), other, 1) == 204
        for _, writer in (flooding, other):
            writer.close()
    ours = [each for each in caplog.records if each.name.startswith("shared.container.")]
    assert len(ours) == 1


async def test_a_connection_of_which_some_requests_are_taken_back_stays_open() -> None:
    """A front end sends the requests of many clients, some of whom leave."""
    client = a_client()
    async with served() as port, asyncio.timeout(20):
        connection = await connected(port)
        for _ in range(MOST_RESETS + 50):
            left = client.get_next_available_stream_id()
            begin(client, left)
            client.reset_stream(left)
            assert await ask(client, connection, client.get_next_available_stream_id()) == 204
        connection[1].close()


async def test_a_connection_that_has_had_its_requests_ends_no_answer() -> None:
    release = asyncio.Event()
    async with served(release, requests=3) as port, asyncio.timeout(20):
        connection, client = await connected(port), a_client()
        begin(client, 1, "/slow")
        for stream in (3, 5):
            assert await ask(client, connection, stream) == 204
        begin(client, 7)
        reader, writer = connection
        writer.write(client.data_to_send())
        received = await until_frame(reader, GoAwayFrame, RstStreamFrame)
        gone, reset = received
        assert gone.last_stream_id == 5
        assert (reset.stream_id, reset.error_code) == (7, ErrorCodes.REFUSED_STREAM)
        release.set()
        (body,) = await until_frame(reader, DataFrame)
        assert body.data == b"done"
        writer.close()


async def test_nothing_waits_to_send_an_answer_that_was_taken_back() -> None:
    ended = asyncio.Event()
    async with served(ended=ended) as port, asyncio.timeout(20):
        reader, writer = await connected(port)
        client = a_client()
        begin(client, 1, "/large")
        writer.write(client.data_to_send())
        # As much as may come while the client says nothing of having read it.
        heard = 0
        while heard < 65_535:
            (data,) = await until_frame(reader, DataFrame)
            heard += len(data.data)
        assert not ended.is_set()
        client.reset_stream(1)
        writer.write(client.data_to_send())
        await ended.wait()
        writer.close()


async def until_frame(reader: asyncio.StreamReader, *kinds: type[Frame]) -> list[Any]:
    """Read until a frame of each kind has come; h2 reads none after GOAWAY."""
    found: dict[type[Frame], Frame] = {}
    while len(found) < len(kinds):
        frame, length = Frame.parse_frame_header(memoryview(await reader.readexactly(9)))
        frame.parse_body(memoryview(await reader.readexactly(length)))
        if type(frame) in kinds:
            found[type(frame)] = frame
    return [found[kind] for kind in kinds]
