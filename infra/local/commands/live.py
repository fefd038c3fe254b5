"""The command `live`: sends speech to `live` as it is spoken, and prints when each answer came."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import sys
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from rich.console import Console
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from infra.local.cloud.start import local_cloud
from infra.local.commands.batch import UsageError
from infra.local.commands.demo import StepPrinter
from infra.local.commands.visitor import (
    RecordingRequest,
    RequestRefusedError,
    ServedVoices,
    Visitor,
    content_type_of,
    open_client,
    read_recording,
)
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from infra.local.configuration.options import CloudOptions


SUBPROTOCOL: Final = Subprotocol("voice-avatar.live.v1")
PIECE: Final = 500  # the bytes of one message; a recorder gives about as many each 60 ms
FIRST_SAMPLE_BYTES: Final = 4

OPENING_SECONDS: Final = 10.0
CLOSING_SECONDS: Final = 5.0
PING_SECONDS: Final = 7.0
"""How often the server is asked for a sign of life, and how long it may take to give one."""

ANSWER_SECONDS: Final = 600.0  # how long the last message may take after the end of the recording
ENDS: Final = frozenset({"done", "failed", "retry"})
_BROKEN: Final = 1006


@dataclass(frozen=True, slots=True)
class HeardPiece:
    """Sound of the character that came while the visitor spoke."""

    first: int  # the number of its first sample, at 24 kHz since the beginning of the recording
    samples: bytes  # 16 bits each, little-endian
    came_at: float  # on the clock `time.perf_counter`


@dataclass
class LiveVisitor:
    """One connection; use it as an async context manager.

    Attributes:
        ticket: from `POST /api/v1/voices`.
        close: code and reason with which the server closed, None if the connection broke.
        came_at: when a message of each type came first, and `sound` when all of it was there; in
            seconds on the clock `time.perf_counter`.
    """

    url: str
    ticket: str
    hear: bool = False
    heard: list[HeardPiece] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    sound: bytes = b""
    close: tuple[int, str] | None = None
    came_at: dict[str, float] = field(default_factory=dict)
    _sent: bytearray = field(default_factory=bytearray)
    _sound_bytes: int = 0

    async def __aenter__(self) -> Self:
        self._connecting = connect(
            self.url,
            subprotocols=[SUBPROTOCOL],
            open_timeout=OPENING_SECONDS,
            # A connection that the network forgot ends, and with it whoever waits for an answer.
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            close_timeout=CLOSING_SECONDS,
        )
        self._socket = await self._connecting.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connecting.__aexit__(kind, error, trace)

    async def start(self, content_type: str = "audio/webm") -> None:
        await self._say("start", ticket=self.ticket, content_type=content_type, hear=self.hear)

    async def send(self, piece: bytes) -> None:
        self._sent += piece
        await self._socket.send(piece)

    def abort(self) -> None:
        """End the connection without saying so, as a device does that lost its network."""
        self._socket.transport.abort()

    async def finish(self) -> None:
        digest = hashlib.sha256(self._sent).hexdigest()
        await self._say("end", bytes=len(self._sent), sha256=digest)

    async def speak(
        self,
        recording: bytes,
        content_type: str = "audio/webm",
        *,
        seconds: float = 0.0,
        piece: int = PIECE,
    ) -> None:
        """Send a whole recording, spread evenly over so many seconds."""
        await self.start(content_type)
        begin, loop = asyncio.get_running_loop().time(), asyncio.get_running_loop()
        for sent in range(0, len(recording), piece):
            due = begin + seconds * sent / len(recording)
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self.send(recording[sent : sent + piece])
        await asyncio.sleep(max(0.0, begin + seconds - loop.time()))
        await self.finish()

    async def end(self) -> dict[str, Any] | None:
        """Return the last message; None if the connection ended without one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                async for told in self.answers():
                    if told["type"] in ENDS:
                        return told
        return None

    async def answers(self) -> AsyncIterator[dict[str, Any]]:
        """Yield every control message until the connection ends."""
        try:
            async for message in self._socket:
                if isinstance(message, bytes):
                    self._hear(message)
                    continue
                told = json.loads(message)
                self.came_at.setdefault(told["type"], time.perf_counter())
                self.messages.append(told)
                if told["type"] == "converted":
                    self._sound_bytes = told["bytes"]
                yield told
        except ConnectionClosed:
            pass
        if self._socket.close_code not in {None, _BROKEN}:
            self.close = (int(self._socket.close_code or 0), self._socket.close_reason or "")

    async def _say(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **fields}))

    def _hear(self, piece: bytes) -> None:
        if "converted" not in self.came_at:
            first = int.from_bytes(piece[:FIRST_SAMPLE_BYTES], "little")
            samples = piece[FIRST_SAMPLE_BYTES:]
            self.heard.append(HeardPiece(first, samples, time.perf_counter()))
            return
        self.sound += piece
        if self._sound_bytes and len(self.sound) >= self._sound_bytes:
            self.came_at.setdefault("sound", time.perf_counter())


SHOWN: Final = {
    "converted": "the result begins to come",
    "sound": "the result can be played",
    "done": "the document is done",
    "failed": "the document is failed",
}
"""The messages whose arrival is shown."""

_PIECE_BYTES: Final = 4096
"""What is sent at a time: 43 ms of the microphone. Some devices give a few samples at a time, and
the service limits the number of messages."""

_RECORDER_SECONDS: Final = 10.0
"""How long the program that records may give nothing, and may take to end."""

_FFMPEG_INPUTS: Final = {
    "linux": ("-f", "alsa", "-i", "default"),
    "darwin": ("-f", "avfoundation", "-i", ":default"),
}


@dataclass(frozen=True, slots=True)
class SpeechSource:
    path: Path | None
    seconds: float


async def run_live(
    options: CloudOptions,
    wish: RecordingRequest,
    source: SpeechSource,
    *,
    embedded: bool | None,
    output: Path,
    api: str | None = None,
) -> None:
    """Send speech as it is spoken, and leave the result at `output`.

    Args:
        api: of a local cloud that runs already; None to start one.
    """
    if source.path is None:
        _recorder(source.seconds)  # complains before anything is started
    steps = StepPrinter(Console())
    async with AsyncExitStack() as stack:
        if api is None:
            steps.show("starting the local cloud")
            starting = local_cloud(options, embedded=embedded, note=steps.show)
            api = (await stack.enter_async_context(starting)).addresses.api
        else:
            steps.show(f"the local cloud that runs already listens: {api}")
        content_type = "audio/wav" if source.path is None else content_type_of(source.path)
        async with open_client() as client:
            visitor = Visitor(client, api, ServedVoices(client, api))
            created = await visitor.create(wish, content_type)
        steps.show(f"POST /api/v1/voices: voice {created['voice_id']} and a ticket")
        sound = await speak(created, source, content_type, steps)
    await asyncio.to_thread(output.parent.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread(output.write_bytes, sound)
    steps.show("the converted recording:")
    steps.say(str(output))


async def speak(
    created: Mapping[str, Any], source: SpeechSource, content_type: str, steps: StepPrinter
) -> bytes:
    """Speak to the service `live` for a voice that was created; return the result."""
    async with LiveVisitor(created["live"]["url"], created["live"]["ticket"]) as live:
        # If the service closes the connection, what it said comes after this.
        with suppress(ConnectionClosed):
            if source.path is None:
                await live.start(content_type)
                steps.show(f"speak now, for {source.seconds:g} s")
                await send_recorded(live, _recorder(source.seconds))
            else:
                recording = await asyncio.to_thread(read_recording, source.path, created)
                async with Decoder(max_processes=1) as decoder:
                    seconds = (await decoder.decode(recording, limits=DecodeLimits())).seconds
                name = source.path.name
                steps.show(f"speaking: {name}, {len(recording)} bytes in {seconds:.1f} s")
                await live.speak(recording, content_type, seconds=seconds)
        ended = time.perf_counter()
        steps.show("the speech has ended")
        last = await live.end()
    for name, at in live.came_at.items():
        if name in SHOWN:
            steps.show(f"{(at - ended) * 1000:.0f} ms after the end: {SHOWN[name]}")
    if last is None or last["type"] == "retry":
        raise RequestRefusedError(
            "not_live", f"the recording has to be uploaded: {last or live.close}"
        )
    if last["type"] == "failed":
        raise RequestRefusedError(last["code"], last["message"])
    return live.sound


async def send_recorded(live: LiveVisitor, command: Sequence[str]) -> None:
    """Send what a program records to its standard output, up to its end, and `end`."""
    # ffmpeg would take what is typed meanwhile as commands.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    output, piece = cast("asyncio.StreamReader", process.stdout), b"."
    complaint = f"the microphone gave no sound for {_RECORDER_SECONDS:g} s"
    try:
        while piece:
            try:
                async with asyncio.timeout(_RECORDER_SECONDS):
                    piece = await output.readexactly(_PIECE_BYTES)
            except asyncio.IncompleteReadError as end:
                piece = end.partial
            if piece:
                await live.send(piece)
        complaint = f"{command[0]} does not end"
        async with asyncio.timeout(_RECORDER_SECONDS):
            await process.wait()
    except TimeoutError:
        raise UsageError(complaint) from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode != 0:
        raise UsageError(f"{command[0]} could not record from the microphone")
    await live.finish()


def _recorder(seconds: float) -> list[str]:
    """Return the command that records a WAV of so many seconds to its standard output."""
    length = f"{seconds:g}"
    if sys.platform == "linux" and shutil.which("arecord"):
        whole = f"{max(1, round(seconds))}"
        return ["arecord", "-q", "-t", "wav", "-f", "S16_LE", "-r", "48000", "-d", whole]
    if shutil.which("ffmpeg") and sys.platform in _FFMPEG_INPUTS:
        quiet = ("ffmpeg", "-loglevel", "error")
        return [*quiet, *_FFMPEG_INPUTS[sys.platform], "-t", length, "-ac", "1", "-f", "wav", "-"]
    raise UsageError(
        "--microphone needs arecord (Linux) or ffmpeg (Linux, macOS): install one, or name a file"
    )
