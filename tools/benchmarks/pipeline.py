"""Measures the cost of a voice beside its conversion, from the end of the upload to `done`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from statistics import median
from typing import Any, Final, NamedTuple, Self

import numpy as np
from hpack import Decoder
from hypercorn.asyncio import serve
from hypercorn.config import Config
from hyperframe.frame import ContinuationFrame, Frame, HeadersFrame
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from infra.local.configuration import names
from infra.local.configuration.environments import FIRESTORE_VARIABLE, PUBSUB_VARIABLE
from infra.local.configuration.names import Ports
from tools.benchmarks.report import PERCENTILES, Cell, Report, Table
from tools.benchmarks.servers import cpu_seconds, emulator
from tools.benchmarks.voice_journeys import Visitors, VoiceJourney, visited_cloud

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


@asynccontextmanager
async def counted_messages(visitors: Visitors) -> AsyncIterator[Counter[str]]:
    """Let the Pub/Sub emulator push through this process, which counts each voice's messages."""
    addresses, messages = visitors.cloud.addresses, Counter[str]()
    endpoints = {
        names.UPLOADS_TOPIC: addresses.on_upload,
        names.CONVERSIONS_TOPIC: f"{addresses.convert}/push",
    }

    async def deliver(request: Request) -> Response:
        topic, envelope = request.path_params["topic"], await request.json()
        attributes = envelope["message"]["attributes"]
        messages[attributes.get("voice_id") or attributes["objectId"]] += 1
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
            yield messages
        finally:
            for topic, endpoint in endpoints.items():
                await push_to(topic, endpoint)
            stop.set()
            await serving


AFTERWARDS_SECONDS: Final = 2.0
COUNTED_SHARDS: Final = 3
"""The buckets of recordings, and of results, while calls are counted; more cause no more calls."""

EMULATORS_PUSH: Final = "the emulator's push"
IN_MEMORY: Final = "in memory, one process"


class Counts(NamedTuple):
    """Documents and messages of one voice; `listened` documents reach the visitor's listener."""

    writes: float
    reads: float
    listened: float
    messages: float


async def run(*, quick: bool) -> Report:
    # The emulators' first requests take longer, so nothing is measured during the warm-ups.
    warm_ups, idle, counted = (5, 8, 2) if quick else (20, 100, 10)
    async with visited_cloud(embedded=True) as visitors:
        await visitors.send_one_by_one(warm_ups)
        in_memory = await visitors.send_one_by_one(idle)
    async with visited_cloud() as visitors:
        await visitors.send_one_by_one(warm_ups)
        before = _cpu_milliseconds(visitors)
        pushed = await visitors.send_one_by_one(idle)
        after = _cpu_milliseconds(visitors)
    processor = tuple((name, (after[name] - spent) / idle) for name, spent in before.items())
    counts = await measure_counts(counted)
    return Report(
        "pipeline",
        (
            _overhead_table({EMULATORS_PUSH: pushed, IN_MEMORY: in_memory}),
            _counts_table(counts),
            Table("Processor time per voice of 3 s, ms", ("service", "time"), processor),
        ),
        facts={
            "overhead on the idle local cloud, p50 (ms, under 120 is wanted)": median(
                journey.overhead for journey in pushed
            )
        },
        ratios={"Firestore calls per voice": counts.writes + counts.reads},
    )


def _cpu_milliseconds(visitors: Visitors) -> dict[str, float]:
    return {name: 1000 * cpu_seconds(pid) for name, pid in visitors.cloud.pids.items()}


async def measure_counts(voices: int) -> Counts:
    async with (
        emulator("firestore") as firestore,
        emulator("pubsub") as pubsub,
        CountingProxy(firestore) as proxy,
        visited_cloud(
            upload_shards=COUNTED_SHARDS,
            environment={FIRESTORE_VARIABLE: proxy.address, PUBSUB_VARIABLE: pubsub},
        ) as visitors,
    ):
        async with counted_messages(visitors) as messages:
            before = proxy.calls.copy()
            journeys = await visitors.send_one_by_one(voices)
            # A recording is emptied after `done`, which causes one more message.
            await asyncio.sleep(AFTERWARDS_SECONDS)
        calls = proxy.calls - before
    ids = [journey.voice_id for journey in journeys]
    return Counts(
        writes=calls[WRITE] / len(ids),
        reads=calls[READ] / len(ids),
        listened=sum(journey.states for journey in journeys) / len(ids),
        messages=sum(messages[voice_id] for voice_id in ids) / len(ids),
    )


def _overhead_table(ways: Mapping[str, Sequence[VoiceJourney]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for way, journeys in ways.items():
        overheads = np.percentile([journey.overhead for journey in journeys], PERCENTILES)
        conversion = median(journey.conversion for journey in journeys)
        rows.append((way, *map(float, overheads), conversion, len(journeys)))
    columns = ("delivery", *(f"p{each}" for each in PERCENTILES), "conversion", "voices")
    title = "From the end of the upload to done at the visitor's listener, less the conversion, ms"
    return Table(title, columns, tuple(rows))


def _counts_table(counts: Counts) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = (
        ("Firestore documents written", counts.writes),
        ("Firestore documents read by the service", counts.reads),
        ("Firestore documents read by the visitor's listener", counts.listened),
        ("Pub/Sub messages", counts.messages),
    )
    return Table("What one voice asks for", ("what", "per voice"), rows)
