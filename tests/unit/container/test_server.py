from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypercorn.config import Config

from shared.container.server import UnreadBodies
from tests.unit.container.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

IDLE_SECONDS = 0.2
LONG = 2_000_000


async def application(scope: Scope, receive: Receive, send: Send) -> None:
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
    async with serving(UnreadBodies(application, IDLE_SECONDS), config) as port:
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
