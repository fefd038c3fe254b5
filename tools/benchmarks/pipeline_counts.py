"""Delivering messages in the emulator's stead, and noting when each hop was reached.

The emulator pushes to an endpoint one message after another until it has gained confidence; Pub/Sub
pushes at once. What is measured through the emulator's push under load is the emulator.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

from hpack import Decoder
from hypercorn.asyncio import serve
from hypercorn.config import Config
from hyperframe.frame import ContinuationFrame, Frame, HeadersFrame
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from infra.local.cloud.memory import ACKNOWLEDGING
from infra.local.configuration import names
from infra.local.configuration.names import Ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping

    import httpx
    from starlette.requests import Request

    from infra.local.configuration.environments import Addresses


_MOST_AT_ONCE: Final = 100


class Deliveries:
    """Stands between the topics on the way of a voice and those who are pushed to.

    `moments[voice_id]` holds, in seconds since the epoch, when each hop was reached: `published to
    TOPIC`, `arrived from TOPIC`, `answered to TOPIC`. `messages` counts deliveries by voice.
    `refused` counts those that were not acknowledged, so that their messages come again.
    """

    def __init__(self, client: httpx.AsyncClient, addresses: Addresses) -> None:
        self._client = client
        self._pubsub = f"http://{addresses.pubsub}/v1"
        self._endpoints: Mapping[str, str] = {
            names.UPLOADS_TOPIC: addresses.on_upload,
            names.CONVERSIONS_TOPIC: f"{addresses.convert}/push",
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self.moments: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self.messages: defaultdict[str, int] = defaultdict(int)
        self.refused = 0

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Let the emulator push as ever, but through here."""
        ports = Ports()
        (port,) = ports.free(1)
        stop = asyncio.Event()
        config = Config()
        config.bind, config.loglevel = [f"127.0.0.1:{port}"], "WARNING"
        app: Any = Starlette(routes=[Route("/{topic}", self._take, methods=["POST"])])
        serving = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
        for topic in self._endpoints:
            await self._push_to(topic, f"http://127.0.0.1:{port}/{topic}")
        try:
            yield
        finally:
            for topic, endpoint in self._endpoints.items():
                await self._push_to(topic, endpoint)
            stop.set()
            await serving
            ports.close()

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[None]:
        """Pull the messages and push each as soon as it is there, as Pub/Sub does."""
        replaced = [await self._replace_subscription(topic) for topic in self._endpoints]
        for topic in self._endpoints:
            self._spawn(self._pull_for_ever(topic))
        try:
            yield
        finally:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for topic, subscription in zip(self._endpoints, replaced, strict=True):
                await self._send("DELETE", _pulled(topic))
                await self._send("PUT", _pushed(topic), subscription)

    async def _replace_subscription(self, topic: str) -> dict[str, Any]:
        """Put a pull subscription into a push subscription's place; return the latter.

        One of its own, because a pull that is given up may take a message with it.
        """
        subscription = await self._send("GET", _pushed(topic))
        await self._send("DELETE", _pushed(topic))
        kept = ("topic", "ackDeadlineSeconds", "retryPolicy", "deadLetterPolicy")
        await self._send("PUT", _pulled(topic), {name: subscription[name] for name in kept})
        return subscription

    async def _take(self, request: Request) -> Response:
        topic = request.path_params["topic"]
        return Response(status_code=await self._deliver(topic, await request.json()))

    async def _pull_for_ever(self, topic: str) -> None:
        while True:
            pulled = await self._send(
                "POST", f"{_pulled(topic)}:pull", {"maxMessages": _MOST_AT_ONCE}
            )
            for received in pulled.get("receivedMessages", ()):
                self._spawn(self._deliver_pulled(topic, received))

    async def _deliver_pulled(self, topic: str, received: Mapping[str, Any]) -> None:
        envelope = {"message": received["message"], "subscription": _pushed(topic)}
        status = await self._deliver(topic, envelope)
        ids = {"ackIds": [received["ackId"]]}
        if status in ACKNOWLEDGING:
            await self._send("POST", f"{_pulled(topic)}:acknowledge", ids)
        else:
            again = ids | {"ackDeadlineSeconds": 0}
            await self._send("POST", f"{_pulled(topic)}:modifyAckDeadline", again)

    async def _deliver(self, topic: str, envelope: Mapping[str, Any]) -> int:
        message = envelope["message"]
        attributes = message["attributes"]
        voice_id = attributes.get("voice_id") or attributes["objectId"]
        moments = self.moments[voice_id]
        published = datetime.fromisoformat(message["publishTime"]).timestamp()
        # The first: another message comes when the recording is emptied.
        moments.setdefault(f"published to {topic}", published)
        moments.setdefault(f"arrived from {topic}", time.time())
        self.messages[voice_id] += 1
        answer = await self._client.post(self._endpoints[topic], json=envelope, timeout=None)
        moments[f"answered to {topic}"] = time.time()
        if answer.status_code not in ACKNOWLEDGING:
            self.refused += 1
        return answer.status_code

    async def _push_to(self, topic: str, endpoint: str) -> None:
        config = {"pushConfig": {"pushEndpoint": endpoint}}
        await self._send("POST", f"{_pushed(topic)}:modifyPushConfig", config)

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        url = f"{self._pubsub}/{path}"
        response = await self._client.request(method, url, json=body, timeout=None)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _pushed(topic: str) -> str:
    return names.subscription_path(f"{topic}-push")


def _pulled(topic: str) -> str:
    return names.subscription_path(f"{topic}-at-once")


WRITE: Final = "Commit"
READ: Final = "BatchGetDocuments"

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEADER_BYTES: Final = 9
_LARGEST_TABLE_BYTES: Final = 1 << 20


class CountingProxy:
    """A TCP proxy before the emulator that counts gRPC calls by the method's name."""

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
        """Where it listens, HOST:PORT."""
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
    """Finds the calls in what a client sends over one HTTP/2 connection (RFC 9113)."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._block = b""
        self._is_begun = False
        self._decoder = Decoder()
        # How large a table the server allows is said in the other direction.
        self._decoder.max_allowed_table_size = _LARGEST_TABLE_BYTES

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the methods' names that the data complete; nothing for what is not HTTP/2."""
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
        # Every block is decoded, because each changes the table for those that follow.
        headers = self._decoder.decode(self._block, raw=True)
        self._block = b""
        for name, value in headers:
            if name == b":path":
                yield value.decode().rpartition("/")[2]
