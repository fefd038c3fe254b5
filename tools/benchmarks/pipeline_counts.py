"""Counts a voice's calls of Firestore and its messages."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from hpack import Decoder
from hypercorn.asyncio import serve
from hypercorn.config import Config
from hyperframe.frame import ContinuationFrame, Frame, HeadersFrame
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from infra.local.configuration import names
from infra.local.configuration.names import Ports
from tools.benchmarks.voice_journeys import Visitors

WRITE: Final = "Commit"
READ: Final = "BatchGetDocuments"

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEADER_BYTES: Final = 9
_LARGEST_TABLE_BYTES: Final = 1 << 20


class CountingProxy:
    """A TCP proxy before an emulator, HOST:PORT, that counts gRPC calls by the method's name."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.rpartition(":")
        self._piping: set[asyncio.Task[None]] = set()
        self.calls: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._server.close()
        for task in self._piping:
            task.cancel()
        await asyncio.gather(*self._piping, return_exceptions=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_connection(self._host, int(self._port))
        for work in (
            self._pipe(reader, their_writer, CallParser()),
            self._pipe(their_reader, writer, None),
        ):
            task = asyncio.create_task(work)
            self._piping.add(task)
            task.add_done_callback(self._piping.discard)

    async def _pipe(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, parser: CallParser | None
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                sink.write(data)
                if parser is not None:
                    self.calls.update(parser.feed(data))
        sink.close()


class CallParser:
    """Finds the calls in the bytes that a client sends over one HTTP/2 connection (RFC 9113)."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._block = b""
        self._is_begun = False
        self._decoder = Decoder()
        # The server announces its limit in the other direction, which is not read here.
        self._decoder.max_allowed_table_size = _LARGEST_TABLE_BYTES

    def feed(self, data: bytes) -> Iterator[str]:
        self._unread += data
        if not self._is_begun:
            if not self._unread.startswith(_PREFACE):
                return
            del self._unread[: len(_PREFACE)]
            self._is_begun = True
        for frame in self._frames():
            if isinstance(frame, HeadersFrame | ContinuationFrame):
                self._block += frame.data
                if "END_HEADERS" in frame.flags:
                    yield from self._methods()

    def _frames(self) -> Iterator[Frame]:
        while len(self._unread) >= _FRAME_HEADER_BYTES:
            header = memoryview(bytes(self._unread[:_FRAME_HEADER_BYTES]))
            frame, length = Frame.parse_frame_header(header)
            end = _FRAME_HEADER_BYTES + length
            if len(self._unread) < end:
                return
            frame.parse_body(memoryview(bytes(self._unread[_FRAME_HEADER_BYTES:end])))
            del self._unread[:end]
            yield frame

    def _methods(self) -> Iterator[str]:
        # Every block is decoded, because each changes the table for the next ones.
        headers = self._decoder.decode(self._block, raw=True)
        self._block = b""
        for name, value in headers:
            if name == b":path":
                yield value.decode().rpartition("/")[2]


class Deliveries(NamedTuple):
    """The messages of each voice that passed.

    `moments[voice_id]` has the Unix time of each hop: `published to TOPIC`, `arrived from TOPIC`.
    """

    moments: defaultdict[str, dict[str, float]]
    messages: Counter[str]


@asynccontextmanager
async def watched_deliveries(visitors: Visitors) -> AsyncIterator[Deliveries]:
    """Let the Pub/Sub emulator push through this process, which records each message."""
    addresses, found = visitors.cloud.addresses, Deliveries(defaultdict(dict), Counter())
    endpoints = {
        names.UPLOADS_TOPIC: addresses.on_upload,
        names.CONVERSIONS_TOPIC: f"{addresses.convert}/push",
    }

    async def deliver(request: Request) -> Response:
        topic, envelope = request.path_params["topic"], await request.json()
        message = envelope["message"]
        voice_id = message["attributes"].get("voice_id") or message["attributes"]["objectId"]
        published = datetime.fromisoformat(message["publishTime"]).timestamp()
        # The first one: another message comes when the recording is emptied.
        found.moments[voice_id].setdefault(f"published to {topic}", published)
        found.moments[voice_id].setdefault(f"arrived from {topic}", time.time())
        found.messages[voice_id] += 1
        answer = await visitors.client.post(endpoints[topic], json=envelope, timeout=None)
        return Response(status_code=answer.status_code)

    async def push_to(topic: str, endpoint: str) -> None:
        subscription = names.subscription_path(f"{topic}-push")
        address = f"http://{addresses.pubsub}/v1/{subscription}:modifyPushConfig"
        config = {"pushConfig": {"pushEndpoint": endpoint}}
        (await visitors.client.post(address, json=config)).raise_for_status()

    stop, config = asyncio.Event(), Config()
    app: Any = Starlette(routes=[Route("/{topic}", deliver, methods=["POST"])])
    with Ports() as ports:
        (port,) = ports.free(1)
        config.bind, config.loglevel = [f"127.0.0.1:{port}"], "WARNING"
        serving = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
        for topic in endpoints:
            await push_to(topic, f"http://127.0.0.1:{port}/{topic}")
        try:
            yield found
        finally:
            for topic, endpoint in endpoints.items():
                await push_to(topic, endpoint)
            stop.set()
            await serving
