"""`live` with everything around it in memory, and a client that speaks to it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from starlette.routing import WebSocketRoute

from functions.live.conversion import LiveConversion
from functions.live.messages import ConnectionLimits, HeldBytes
from functions.live.protocol import PATH, SUBPROTOCOL
from functions.live.service import ConnectionAdmission, LiveService, SessionDependencies
from shared.container.admission import Admission
from shared.conversion.composition import ConvertingApp
from shared.conversion.worker import Worker
from shared.runtime.limits import PlacesPerClient
from shared.voices.tickets import Tickets
from tests.support.buckets import MemoryBucket
from tests.support.conversion import (
    FakeCharacters,
    FakeConversion,
    FakeDecoder,
    LoopVoices,
    open_gate,
)
from tests.support.stores import CountedOwnCharacters
from tests.support.voices import a_waiting

if TYPE_CHECKING:
    from functions.live.stream import RecordingStream, RecordingStreams
    from shared.conversion.stages import Conversion
    from shared.speech.decoding.decoder import Decoder
    from shared.voices.voice import Voice

SITE = "https://site.example"
DATA = b"\x1aE\xdf\xa3" + bytes(range(256)) * 20
DEADLINE = 60.0
LISTENING_SECONDS = 30.0
MAX_BYTES = 20_000


class Client:
    """The client's end of one WebSocket to an ASGI application."""

    def __init__(self, app: ConvertingApp, scope: dict[str, Any]) -> None:
        self._to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[str | bytes] = []
        self.status: int | None = None
        self.close: tuple[int, str] | None = None
        self.answers_close = True
        self.reads = open_gate()
        self._ended = asyncio.Event()
        self._to_app.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(self._run(app, scope))

    def send(self, message: str | bytes | dict[str, Any]) -> None:
        if isinstance(message, dict):
            message = json.dumps(message)
        kind = "text" if isinstance(message, str) else "bytes"
        self._to_app.put_nowait({"type": "websocket.receive", kind: message})

    def leave(self) -> None:
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1006})

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in self.sent if isinstance(each, str)]

    @property
    def types(self) -> list[str]:
        """The types of the messages that came, without those that repeat themselves."""
        return [each["type"] for each in self.messages if each["type"] != "received"]

    @property
    def sound(self) -> bytes:
        return b"".join(each for each in self.sent if isinstance(each, bytes))

    async def ended(self) -> Client:
        await self.task
        return self

    async def _run(self, app: ConvertingApp, scope: dict[str, Any]) -> None:
        await app(scope, self._to_app.get, self._receive)

    async def _receive(self, message: Any) -> None:
        if message["type"] == "websocket.send":
            await self.reads.wait()
            text = message.get("text")
            self.sent.append(message["bytes"] if text is None else text)
        elif message["type"] == "websocket.accept":
            self.status = 101
        elif message["type"] == "websocket.http.response.start":
            self.status = message["status"]
        elif message["type"] == "websocket.close":
            self.close = (message["code"], message.get("reason") or "")
            if self.answers_close:
                self.leave()


@dataclass
class LiveStage:
    sockets: int = 10
    sockets_per_client: int = 0
    running: int = 2
    max_messages: int = 100
    max_held_bytes: int = 50_000
    streams: RecordingStreams | None = None
    voices: LoopVoices = field(default_factory=LoopVoices)
    own_characters: CountedOwnCharacters = field(default_factory=CountedOwnCharacters)
    uploads: MemoryBucket = field(default_factory=lambda: MemoryBucket("uploads"))
    tickets: Tickets = field(default_factory=lambda: Tickets(["k" * 32]))

    def __post_init__(self) -> None:
        self.conversion = FakeConversion()
        conversion, characters = cast("Conversion", self.conversion), FakeCharacters()
        admission = Admission(running=self.running, waiting=self.sockets)
        self.worker = Worker(
            self.voices,
            characters,
            conversion,
            admission,
            DEADLINE,
            own_characters=self.own_characters,
        )
        shared = SessionDependencies(
            tickets=self.tickets,
            voices=self.voices,
            conversion=LiveConversion(
                self.voices, self.uploads, conversion, characters, admission, self.worker
            ),
            max_seconds=10.0,
            streams=self.streams,
        )
        self.connections = ConnectionAdmission(
            (SITE,), self.sockets, PlacesPerClient(self.sockets_per_client, 1)
        )
        limits = ConnectionLimits(MAX_BYTES, self.max_messages, LISTENING_SECONDS)
        held_bytes = HeldBytes(self.max_held_bytes)
        self.service = LiveService(self.connections, limits, held_bytes, shared)
        route = WebSocketRoute(PATH, self.service.serve)
        decoder = cast("Decoder", FakeDecoder())
        self.app = ConvertingApp([route], self.worker, decoder, drain=self.drain)

    async def drain(self) -> None:
        await self.service.drain(5.0)
        await self.worker.drain()

    async def add(self, voice: Voice | None = None) -> str:
        voice = voice or a_waiting()
        await self.voices.create(voice)
        return voice.voice_id

    async def voice(self, voice_id: str) -> Voice:
        return (await self.voices.read(voice_id)).voice

    def ticket(self, voice_id: str) -> str:
        return self.tickets.sign(voice_id, timedelta(minutes=5)).text

    def connect(self, *, subprotocol: str = SUBPROTOCOL, **headers: str) -> Client:
        return Client(self.app, a_scope(subprotocol, {"host": "live.test", **headers}))

    def start(self, voice_id: str, **changes: Any) -> Client:
        """Connect and send `start`."""
        client = self.connect()
        start = {"ticket": self.ticket(voice_id), "content_type": "audio/webm"}
        client.send({"type": "start"} | start | changes)
        return client

    def speak(self, voice_id: str, data: bytes = DATA, **changes: Any) -> Client:
        """Connect and send a whole recording."""
        client = self.start(voice_id, **changes)
        for begin in range(0, len(data), 1000):
            client.send(data[begin : begin + 1000])
        client.send(an_end(data))
        return client


async def close(stream: RecordingStream) -> None:
    stream.close()
    async with asyncio.timeout(30):
        await asyncio.gather(stream.task, return_exceptions=True)


def an_end(data: bytes) -> dict[str, Any]:
    return {"type": "end", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def a_scope(subprotocol: str, headers: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "websocket",
        "path": "/live",
        "raw_path": b"/live",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "subprotocols": [subprotocol] if subprotocol else [],
        "client": ("198.51.100.7", 1234),
        "server": ("live.test", 80),
        "scheme": "ws",
        "extensions": {"websocket.http.response": {}},
        "app": None,
    }
