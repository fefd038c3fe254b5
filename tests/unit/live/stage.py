"""`live` with everything around it in memory, and a client that speaks to it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from starlette.routing import WebSocketRoute

from functions.live.conversion import ComputationDependencies, LiveConversion
from functions.live.messages import ConnectionLimits, HeldBytes
from functions.live.protocol import PATH, SUBPROTOCOL
from functions.live.service import ConnectionAdmission, LiveService, ServiceLimits
from functions.live.session import SessionDependencies
from infra.local.cloud.memory import MemoryVoices
from shared.container.admission import Admission
from shared.container.app import ConvertingApp
from shared.conversion.stages import Outcome, UnstoredResult
from shared.conversion.stopwatch import ThreadWork
from shared.conversion.worker import Worker
from shared.runtime.limits import PlacesPerClient
from shared.speech.results.audio_files import EncodedResult
from shared.speech.results.statement import Marking
from shared.voices.store import StoreUnavailableError
from shared.voices.tickets import Tickets
from tests.support.buckets import MemoryBucket
from tests.support.voices import a_result, a_waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from functions.live.stream import RecordingStreams
    from shared.conversion.characters import CharacterLender, LoadedCharacter
    from shared.conversion.stages import Conversion, EarlyResult
    from shared.conversion.stopwatch import Stages
    from shared.voices.store import Snapshot
    from shared.voices.voice import Voice

SITE = "https://site.example"
DATA = b"\x1aE\xdf\xa3" + bytes(range(256)) * 20
SOUND = b"RIFF" + b"sound" * 1000
DEADLINE = 60.0
LISTENING_SECONDS = 30.0
MAX_BYTES = 20_000


class LoopVoices(MemoryVoices):
    """Voices whose clock is the loop's, and which a test can make unreachable."""

    def __init__(self) -> None:
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        super().__init__(now=lambda: begin + timedelta(seconds=asyncio.get_running_loop().time()))
        self.is_out_of_reach = False

    async def read(self, voice_id: str) -> Snapshot:
        self._require_reach()
        return await super().read(voice_id)

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        self._require_reach()
        return await super().replace(snapshot, voice)

    def _require_reach(self) -> None:
        if self.is_out_of_reach:
            raise StoreUnavailableError("down")


class FakeConversion:
    """Makes the same sound of every recording; waits and fails as the test says."""

    def __init__(self, results: MemoryBucket) -> None:
        self.results = results
        self.threads = ThreadWork()
        self.made: list[tuple[str, bytes, str]] = []
        self.error: Exception | None = None
        self.may_make = _open_gate()
        self.may_store = _open_gate()
        self.may_empty = _open_gate()
        self.empty_error: Exception | None = None
        self.begun = asyncio.Event()
        self.discarded: list[str] = []
        self.early: EarlyResult | None = None

    async def make(
        self,
        voice: Voice,
        _character: object,
        data: bytes,
        content_type: str,
        stages: Stages,
        *,
        early: EarlyResult | None,
    ) -> UnstoredResult:
        self.begun.set()
        self.early = early
        with stages.enter("converting", timed_as="network"):
            await self.may_make.wait()
        if self.error is not None:
            raise self.error
        self.made.append((voice.voice_id, data, content_type))
        encoded = EncodedResult(SOUND, "audio/wav", ".wav", 2.5)
        return UnstoredResult(encoded, Marking("mei", "Mei", "credit"), 2.5)

    async def store(self, voice: Voice, made: UnstoredResult, stages: Stages) -> Outcome:
        with stages.enter("storing", timed_as="store"):
            await self.may_store.wait()
            digest = hashlib.sha256(made.encoded.data).hexdigest()
            result = a_result(voice.voice_id, voice.attempt, sha256=digest)
            self.results.put(result.object, made.encoded.data)
            if self.results.is_out_of_reach:
                await self.results.connect()
        return Outcome(result, made.seconds, stages.stopwatch.milliseconds())

    async def discard_recording(self, _voice: Voice) -> None:
        await self.may_empty.wait()
        if self.empty_error is not None:
            raise self.empty_error

    async def discard(self, voice: Voice) -> None:
        self.discarded.append(voice.voice_id)

    async def discard_all(self, voice_id: str) -> None:
        self.discarded.append(voice_id)

    async def discard_others(self, _voice: Voice) -> None:
        pass


class AnyCharacter:
    """Lends a character that nobody looks at."""

    @asynccontextmanager
    async def using(self, _character_id: str) -> AsyncIterator[LoadedCharacter]:
        yield cast("LoadedCharacter", None)


@dataclass
class FakeDecoder:
    is_ready: bool = True


class Client:
    """The client's end of one WebSocket to an ASGI application."""

    def __init__(self, app: ConvertingApp, scope: dict[str, Any]) -> None:
        self._to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[str | bytes] = []
        self.status: int | None = None
        self.close: tuple[int, str] | None = None
        self.answers_close = True
        self.reads = _open_gate()
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
class Stage:
    """A service and everything around it."""

    sockets: int = 10
    sockets_per_client: int = 0
    running: int = 2
    max_messages: int = 100
    max_held_bytes: int = 50_000
    listen: RecordingStreams | None = None
    voices: LoopVoices = field(default_factory=LoopVoices)
    uploads: MemoryBucket = field(default_factory=lambda: MemoryBucket("uploads"))
    results: MemoryBucket = field(default_factory=lambda: MemoryBucket("results"))
    tickets: Tickets = field(default_factory=lambda: Tickets(["k" * 32]))

    def __post_init__(self) -> None:
        self.conversion = FakeConversion(self.results)
        conversion = cast("Conversion", self.conversion)
        admission = Admission(running=self.running, waiting=self.sockets)
        characters = cast("CharacterLender", AnyCharacter())
        self.worker = Worker(self.voices, characters, conversion, admission, DEADLINE)
        computing = ComputationDependencies(conversion, characters, admission)
        shared = SessionDependencies(
            tickets=self.tickets,
            voices=self.voices,
            conversion=LiveConversion(self.voices, self.uploads, computing, self.worker),
            max_seconds=10.0,
            listen=self.listen,
        )
        self.door = ConnectionAdmission(
            (SITE,), self.sockets, PlacesPerClient(self.sockets_per_client, 1)
        )
        each = ConnectionLimits(MAX_BYTES, self.max_messages, LISTENING_SECONDS)
        limits = ServiceLimits(each, HeldBytes(self.max_held_bytes))
        self.service = LiveService(self.door, limits, shared)
        route = WebSocketRoute(PATH, self.service.serve)
        self.app = ConvertingApp([route], self.worker, FakeDecoder(), drain=self.drain)

    async def drain(self) -> None:
        await self.service.drain(5.0)
        await self.worker.drain()

    async def add(self) -> str:
        """Create a voice; return its voice_id."""
        voice = a_waiting()
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


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate
