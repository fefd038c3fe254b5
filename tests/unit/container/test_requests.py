"""Clients that leave in the middle of an answer, lie about a request's end, or send too much."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from functions.compat.service.http_messages import PIECE_BYTES, SlowReadersMiddleware
from shared.container.server import UnreadBodies
from tests.unit.container.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

PIECES = 500
REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


def reset(writer: asyncio.StreamWriter) -> None:
    """Let the connection end as it does when a program is killed: at once, with data unread."""
    writer.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    writer.transport.abort()


@asynccontextmanager
async def served(ended: asyncio.Event) -> AsyncIterator[int]:
    """Serve long answers; yield the port."""

    async def answer(request: Request) -> Response:
        await request.body()
        return Response(bytes(PIECES * PIECE_BYTES))

    routes = Starlette(routes=[Route("/", answer, methods=["POST"])])

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        await SlowReadersMiddleware(routes)(scope, receive, send)
        if scope["type"] == "http":
            ended.set()

    async with serving(UnreadBodies(answering)) as port:
        yield port


@pytest.mark.parametrize("leave", [reset, asyncio.StreamWriter.close], ids=["reset", "close"])
async def test_nothing_is_written_to_a_client_that_is_gone(
    leave: Callable[[asyncio.StreamWriter], None], caplog: pytest.LogCaptureFixture
) -> None:
    ended = asyncio.Event()
    with caplog.at_level(logging.WARNING):
        async with served(ended) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST)
            await reader.readexactly(PIECE_BYTES)
            leave(writer)
            async with asyncio.timeout(10):
                await ended.wait()
    assert caplog.messages == []


async def test_a_client_that_has_said_everything_still_gets_its_answer() -> None:
    """It has closed its half of the connection, as simple programs do, and reads on."""
    async with served(asyncio.Event()) as port, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        writer.write_eof()
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(PIECES * PIECE_BYTES)
        writer.close()
    assert head.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\ncontent-length: 0\r\n",
    ],
)
async def test_a_request_with_a_length_and_chunks_is_refused_with_all_that_follows(
    lengths: bytes,
) -> None:
    """A proxy that believes the length would take what follows for another client's request."""
    ended = asyncio.Event()
    async with served(ended) as port, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\n" + lengths + b"\r\n0\r\n\r\n" + REQUEST)
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
        assert not ended.is_set()


async def test_an_error_of_one_connection_ends_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the process, once that was to stop, with the answers on all other connections."""
    fails = asyncio.Event()
    read = TCPServer._read_data  # noqa: SLF001 - no client can cause an error at will

    async def read_or_fail(self: TCPServer) -> None:
        if not fails.is_set():
            fails.set()
            await asyncio.sleep(0.5)
            raise RuntimeError("an error of the server")
        await read(self)

    monkeypatch.setattr(TCPServer, "_read_data", read_or_fail)
    ended = asyncio.Event()
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        async with served(ended) as port:
            _, failing = await asyncio.open_connection("127.0.0.1", port)
            await fails.wait()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST)
            reading = tasks.create_task(reader.read())
            # The server now stops, and waits for both.
            await asyncio.sleep(0.2)
        whole = await reading
        failing.close()
        writer.close()
    assert len(whole) > PIECES * PIECE_BYTES
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert [each.name for each in errors] == ["shared.container.protocols"]


IDLE_SECONDS = 0.2
LONG = 2_000_000


async def answer_or_refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse at once, or answer how much came."""
    if scope["path"] == "/broken":
        raise RuntimeError
    body = b"no"
    if scope["path"] == "/read":
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        body = str(len(body)).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    config = Config()
    config.loglevel = "CRITICAL"
    config.graceful_timeout = 0.2
    async with serving(UnreadBodies(answer_or_refuse, IDLE_SECONDS), config) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer
        finally:
            writer.close()


def post(path: str, length: int, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode() + body


async def answered(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """The status and the body of the next answer."""
    async with asyncio.timeout(5):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split()[0])
        return head.split()[1], await reader.readexactly(length)


@pytest.mark.parametrize("path", ["/refused", "/read"])
async def test_a_connection_is_used_again_after_a_body_whether_anybody_has_read_it_or_not(
    path: str,
) -> None:
    async with connected() as (reader, writer):
        for _ in range(3):
            writer.write(post(path, LONG, bytes(LONG)))
            answer = await answered(reader)
            assert answer == ("200", b"no" if path == "/refused" else str(LONG).encode())
        writer.write(post("/read", 2, b"hi"))
        assert await answered(reader) == ("200", b"2")


async def test_the_answer_to_a_body_that_does_not_come_leaves_at_once_and_the_connection_ends() -> (
    None
):
    async with connected() as (reader, writer):
        loop = asyncio.get_running_loop()
        begin = loop.time()
        writer.write(post("/refused", 1 << 40, bytes(LONG)))
        assert await answered(reader) == ("200", b"no")
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        assert loop.time() - begin < 10 * IDLE_SECONDS


async def test_the_connection_of_an_application_that_fails_before_it_has_read_everything_ends() -> (
    None
):
    async with connected() as (reader, writer):
        writer.write(post("/broken", LONG, bytes(LONG)))
        assert (await answered(reader))[0] == "500"
        async with asyncio.timeout(5):
            assert await reader.read() == b""
