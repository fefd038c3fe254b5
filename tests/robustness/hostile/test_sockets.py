"""Hostile WebSockets, sent byte by byte to the real server, which refuses them and stays small."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import socket
import struct
import zlib
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest
from hypercorn.config import Config
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode

from functions.live import protocol, service
from functions.live.protocol import SUBPROTOCOL
from infra.local.commands.live import LiveVisitor
from shared.container.protocols import MOST_EMPTY_FRAMES, PIECE_BYTES
from shared.container.server import listening_socket
from tests.support.conversion import SOUND
from tests.unit.container.serving import serving
from tests.unit.live.stage import DATA, LiveStage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TEXT, BINARY, PING, PONG = 0x1, 0x2, 0x9, 0xA
CONTINUATION = 0x0
MIB = 1 << 20
GIB = 1 << 30
# By how much the process may grow, with the client in it and the buffers of both.
MOST_GROWTH = 16 * MIB


@pytest.fixture(autouse=True)
def short_goodbyes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CLOSING_SECONDS", 0.1)


@asynccontextmanager
async def served(stage: LiveStage, keepalive: float = 75.0) -> AsyncIterator[int]:
    """Serve an application as `live` is served; yield the port."""
    config = Config()
    config.graceful_timeout = 1.0
    config.keep_alive_timeout = keepalive
    async with serving(stage.app, config) as port:
        yield port
        # A visitor is still served, no matter what came before.
        client = LiveVisitor(f"ws://127.0.0.1:{port}/live", stage.ticket(await stage.add()))
        async with client:
            await client.speak(DATA)
            assert (await client.end() or {})["type"] == "done"
            assert client.sound == SOUND


class RawClient:
    """A client that may send anything."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.sent = 0
        self.head = b""

    async def send(self, data: bytes) -> bool:
        """Send some bytes; return whether the server still takes them."""
        self.sent += len(data)
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            return False
        return not self.reader.at_eof()

    async def start(self, stage: LiveStage) -> None:
        await self.send(frame(TEXT, start_message(stage.ticket(await stage.add()))))

    async def closed(self) -> tuple[int, str]:
        """Return code and reason of the server's close frame."""
        frames = FrameProtocol(client=True, extensions=[])
        with suppress(ConnectionError):
            while piece := await self.reader.read(65_536):
                frames.receive_bytes(piece)
        for each in frames.received_frames():
            if each.opcode is Opcode.CLOSE:
                code, reason = cast("tuple[int, str | None]", each.payload)
                return int(code), reason or ""
        return int(CloseReason.ABNORMAL_CLOSURE), ""


@asynccontextmanager
async def connected(port: int, *headers: str) -> AsyncIterator[RawClient]:
    """Open a WebSocket, or what the server answers instead."""
    client = RawClient(*await asyncio.open_connection("127.0.0.1", port))
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        "GET /live HTTP/1.1",
        "Host: live.test",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
        *headers,
    ]
    client.writer.write("\r\n".join([*lines, "", ""]).encode())
    client.head = await client.reader.readuntil(b"\r\n\r\n")
    try:
        yield client
    finally:
        client.writer.transport.abort()
        with suppress(ConnectionError):
            await client.writer.wait_closed()


@asynccontextmanager
async def speaking(stage: LiveStage) -> AsyncIterator[RawClient]:
    """Serve, open a WebSocket, and begin a recording."""
    async with served(stage) as port, connected(port) as client:
        await client.start(stage)
        yield client


def frame(
    opcode: int, payload: bytes, *, fin: bool = True, rsv1: bool = False, size: int | None = None
) -> bytes:
    """Return a frame of a client (RFC 6455, section 5.2), masked with zeros."""
    said = len(payload) if size is None else size
    if said < 126:
        length = bytes([0x80 | said])
    elif said < 65_536:
        length = struct.pack(">BH", 0x80 | 126, said)
    else:
        length = struct.pack(">BQ", 0x80 | 127, said)
    return bytes([fin << 7 | rsv1 << 6 | opcode]) + length + bytes(4) + payload


def start_message(ticket: str) -> bytes:
    return json.dumps({"type": "start", "ticket": ticket, "content_type": "audio/webm"}).encode()


async def pour(client: RawClient, piece: bytes) -> int:
    """Send the same bytes until the server ends the connection; return by how much it grew."""
    process = psutil.Process()
    begin = most = process.memory_info().rss
    while await client.send(piece):
        assert client.sent < GIB, "the server takes anything"
        most = max(most, process.memory_info().rss)
        # The server runs in this loop, too.
        await asyncio.sleep(0)
    return int(most - begin)


async def test_compression_is_declined_and_a_compressed_bomb_is_not_expanded() -> None:
    stage = LiveStage()
    offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"
    async with served(stage) as port, connected(port, offer) as client:
        assert b" 101 " in client.head
        assert b"extensions" not in client.head.lower()
        await client.start(stage)
        compressor = zlib.compressobj(wbits=-15)
        bomb = compressor.compress(bytes(48 * MIB)) + compressor.flush()
        await client.send(frame(BINARY, bomb[:60_000], rsv1=True))
        assert (await client.closed())[0] == 1006, "it just ends"
    assert len(stage.conversion.made) == 1


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (frame(BINARY, b"", size=1 << 62), bytes(65_536)),
        (frame(BINARY, b"x", fin=False), frame(CONTINUATION, bytes(1000), fin=False) * 20),
    ],
    ids=["a frame", "a message"],
)
async def test_a_frame_or_message_without_an_end_is_cut_off(begin: bytes, piece: bytes) -> None:
    async with speaking(LiveStage()) as client:
        await client.send(begin)
        assert await pour(client, piece) < MOST_GROWTH
        assert (await client.closed())[0] in {1006, 1009}


@pytest.mark.parametrize(
    ("flood", "reason"),
    [
        (frame(BINARY, b"x"), "too_many_messages"),
        (frame(TEXT, b"{}"), "malformed"),
        (frame(BINARY, bytes(5000)), "too_large"),
    ],
    ids=["one-byte frames", "text", "bytes"],
)
async def test_a_flood_is_cut_off(flood: bytes, reason: str) -> None:
    stage = LiveStage()
    async with speaking(stage) as client:
        assert await pour(client, flood * 10) < MOST_GROWTH
        # Where bytes are still on their way, the system may reset the connection.
        assert (await client.closed())[1] in {reason, ""}
    assert len(stage.conversion.made) == 1


@pytest.mark.parametrize(
    ("before", "flood"),
    [
        (b"", frame(PING, bytes(125))),
        (b"", frame(PONG, b"")),
        (frame(BINARY, b"x", fin=False), frame(CONTINUATION, b"", fin=False)),
    ],
    ids=["pings", "pongs", "empty fragments"],
)
async def test_frames_that_carry_nothing_end_the_connection(before: bytes, flood: bytes) -> None:
    stage = LiveStage()
    async with speaking(stage) as client:
        await client.send(before + flood * (MOST_EMPTY_FRAMES + 1))
        assert await client.closed() == (1006, ""), "it just ends, and before it is too slow"


async def test_as_many_pings_as_a_patient_client_sends_end_nothing() -> None:
    stage = LiveStage()
    async with speaking(stage) as client:
        for _ in range(3):
            await client.send(frame(PING, b"") * MOST_EMPTY_FRAMES)
            await client.send(frame(BINARY, b"x"))
        await client.send(frame(TEXT, CANCEL))
        assert await client.closed() == (1000, "")


async def test_others_have_their_turn_while_a_message_comes_in_pieces_of_a_byte() -> None:
    stage, turns, come = LiveStage(), 0, asyncio.Event()
    app: Any = stage.app

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        async def receive_and_note() -> Any:
            message = await receive()
            if message.get("bytes"):
                come.set()
            return message

        await app(scope, receive_and_note, send)

    stage.app = cast("Any", noting)
    pieces = frame(CONTINUATION, b"x", fin=False) * 15_000
    async with speaking(stage) as client:
        await client.send(frame(BINARY, b"x", fin=False))
        sending = asyncio.create_task(client.send(pieces + frame(CONTINUATION, b"", fin=True)))
        while not come.is_set():
            turns += 1
            await asyncio.sleep(0)
        assert await sending
        stage.app = app
    assert turns > len(pieces) / PIECE_BYTES / 2


async def test_pings_do_not_keep_a_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "START_SECONDS", 0.2)
    async with served(LiveStage()) as port, connected(port) as client:

        async def ping() -> None:
            while await client.send(frame(PING, b"ping")):  # noqa: ASYNC110 - it sends
                await asyncio.sleep(0.01)

        pinging = asyncio.create_task(ping())
        assert await client.closed() == (1008, "too_slow")
        pinging.cancel()


@pytest.mark.parametrize(
    "broken",
    [
        frame(0x3, b"an opcode that is reserved"),
        frame(TEXT, b"\xff\xfe"),
        bytes([0x80 | TEXT, 5]) + b"plain",
    ],
    ids=["reserved", "no UTF-8", "not masked"],
)
async def test_frames_against_the_standard_end_the_connection(broken: bytes) -> None:
    async with served(LiveStage()) as port, connected(port) as client:
        await client.send(broken)
        assert (await client.closed())[0] == 1006, "it just ends"


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET /live HTTP/1.1\r\nHost: live.test\r\nX-A: ",
        b"POST /live HTTP/1.1\r\nHost: live.test\r\nContent-Length: 1000000\r\n\r\n",
    ],
    ids=["nothing", "a header without an end", "a body"],
)
async def test_a_handshake_that_never_ends_is_ended(head: bytes) -> None:
    async with served(LiveStage(), keepalive=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)

        async def trickle() -> None:
            """Send a byte now and then, as a client that wants to be waited for."""
            with suppress(ConnectionError):
                while True:
                    await asyncio.sleep(0.05)
                    writer.write(b"x")
                    await writer.drain()

        trickling = asyncio.create_task(trickle())
        with suppress(ConnectionError):
            async with asyncio.timeout(10):
                while await reader.read(65_536):
                    pass
        trickling.cancel()
        writer.transport.abort()


DIGEST = hashlib.sha256(DATA).hexdigest()
END = json.dumps({"type": "end", "bytes": len(DATA), "sha256": DIGEST}).encode()
CANCEL = b'{"type":"cancel"}'


@pytest.mark.parametrize(
    ("messages", "is_made"),
    [([END, END, CANCEL, END], True), ([CANCEL, END], False)],
    ids=["end first", "cancel first"],
)
async def test_of_an_end_and_a_cancel_in_one_packet_the_first_counts(
    messages: list[bytes], *, is_made: bool
) -> None:
    stage = LiveStage()
    async with speaking(stage) as client:
        packet = b"".join(frame(BINARY, DATA[at : at + 4000]) for at in range(0, len(DATA), 4000))
        await client.send(packet + b"".join(frame(TEXT, each) for each in messages))
        assert await client.closed() == (1000, "")
        assert [data for _, data, _ in stage.conversion.made] == [DATA] * is_made
        assert len(stage.uploads.objects) == is_made


async def test_what_comes_after_the_end_is_neither_kept_nor_waited_for() -> None:
    stage = LiveStage()
    stage.conversion.may_make.clear()
    async with speaking(stage) as client:
        await client.send(frame(BINARY, DATA) + frame(TEXT, END))
        await stage.conversion.begun.acquire()
        process, begin = psutil.Process(), psutil.Process().memory_info().rss
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                while client.sent < 64 * MIB:
                    await client.send(frame(BINARY, bytes(4000)) * 100)
        # The rest waits in the network: only a few messages of a client are taken in advance.
        assert client.sent < 32 * MIB
        assert process.memory_info().rss - begin < MOST_GROWTH
        stage.conversion.may_make.set()
        while not stage.conversion.made:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert [data for _, data, _ in stage.conversion.made] == [DATA, DATA]


async def test_a_message_in_fragments_with_pings_between_them_is_one_message() -> None:
    stage = LiveStage()
    async with served(stage) as port, connected(port) as client:
        start = start_message(stage.ticket(await stage.add()))
        await client.send(_in_fragments(TEXT, start))
        for at in range(0, len(DATA), 1000):
            await client.send(_in_fragments(BINARY, DATA[at : at + 1000]))
        await client.send(_in_fragments(TEXT, END))
        assert await client.closed() == (1000, "")
        assert [data for _, data, _ in stage.conversion.made] == [DATA]


def _in_fragments(opcode: int, payload: bytes) -> bytes:
    """Send a byte in each frame, and a ping after each."""
    pieces = [
        frame(CONTINUATION if at else opcode, payload[at : at + 1], fin=False)
        for at in range(len(payload))
    ]
    return frame(PING, b"").join([*pieces, frame(CONTINUATION, b"")])


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such limit")
def test_the_system_ends_connections_that_nobody_reads() -> None:
    with listening_socket("127.0.0.1", 0) as listening:
        client: Any = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
        with client, accepted:
            milliseconds = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert milliseconds == 20_000
