"""Wyoming, the protocol of Home Assistant.

An event is a line of JSON, then data as JSON and a payload, if there are any. Everything that a
client sends is bounded; nothing that it has a reason to send is longer than a text.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from asyncio import IncompleteReadError
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from functions.compat.service.encoders import Codec, SoundFormat
from functions.compat.service.http_messages import ConnectionActivity
from functions.compat.service.keys import LimitReachedError, Meter
from functions.compat.service.synthesis import SlowReaderError
from functions.compat.service.texts import TextUtterance, speak_text_stream
from shared.runtime.push import OverloadedError
from shared.speech.engines.text_interface import SpeechOptions, TextError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Mapping

    from functions.compat.service.synthesis import Synthesis
    from functions.compat.service.texts import TextSpeaker, TextSpeakers


MOST_BYTES: Final = 64 << 10  # the longest line, data or payload that a client may send
VERSION: Final = "1.5.0"  # of the protocol, which is written into every event
MOST_CONNECTIONS: Final = 64  # with one more, the silent one that is idle longest is ended
IDLE_SECONDS: Final = 600.0
MOST_WAITING: Final = 8  # the most texts of one client that wait to be spoken
UNREAD_SECONDS: Final = 20.0  # a client that does not read for so long loses its connection
_PIECE_BYTES: Final = 16 << 10
_WIDTH: Final = 2
_LOOK_SECONDS: Final = 0.5
_HALF_A_PAIR: Final = re.compile("[\ud800-\udfff]")

_LOG = logging.getLogger(__name__)


class WyomingError(Exception):
    """Bytes that are no event, or a request that cannot be served; one sentence."""


@dataclass(frozen=True, slots=True)
class WyomingEvent:
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: bytes = b""

    def write(self) -> bytes:
        header: dict[str, Any] = {"type": self.type, "version": VERSION}
        # JSON can name half of a surrogate pair, which UTF-8 cannot hold.
        written = json.dumps(self.data, ensure_ascii=False).encode(errors="replace")
        data = written if self.data else b""
        if data:
            header["data_length"] = len(data)
        if self.payload:
            header["payload_length"] = len(self.payload)
        return json.dumps(header).encode() + b"\n" + data + self.payload


async def read_event(reader: StreamReader) -> WyomingEvent | None:
    """Read an event; None if the client has ended the connection."""
    try:
        line = await reader.readline()
        if not line:
            return None
        header = read_object(line)
        found = header.get("data") or {}
        if not isinstance(found, dict):
            raise WyomingError("Expected an object in 'data'.")
        data, size = dict(found), length_in(header, "data_length")
        if size:
            data |= read_object(await reader.readexactly(size))
        payload = await reader.readexactly(length_in(header, "payload_length"))
    except ValueError as error:
        raise WyomingError(f"A line may have at most {MOST_BYTES} bytes.") from error
    except IncompleteReadError as error:
        raise WyomingError("The connection ended inside of an event.") from error
    kind = header.get("type")
    if not isinstance(kind, str):
        raise WyomingError("Expected an event with a type.")
    return WyomingEvent(kind, data, payload)


def read_object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise WyomingError("Expected an event as a line of JSON.") from error
    if not isinstance(found, dict):
        raise WyomingError("Expected an event as a JSON object.")
    return found


def length_in(header: Mapping[str, Any], name: str) -> int:
    found = header.get(name) or 0
    if not isinstance(found, int) or not 0 <= found <= MOST_BYTES:
        raise WyomingError(f"{name!r} may be at most {MOST_BYTES}.")
    return found


_REFUSALS: Final = (WyomingError, TextError, OverloadedError, LimitReachedError)


@dataclass(frozen=True, slots=True)
class SynthesizeRequest:
    """A text to speak; `whole` is None if it comes in pieces."""

    voice: TextSpeaker
    text: TextUtterance
    whole: str | None


def find_voice(voices: TextSpeakers, data: Mapping[str, Any]) -> TextSpeaker:
    asked = data.get("voice") or {}
    name = asked.get("name") if isinstance(asked, dict) else None
    if name is None:
        return voices.default
    speaker = asked.get("speaker")
    voice = voices.find(f"{name}:{speaker}" if speaker else str(name))
    if voice is not None:
        return voice
    if speaker and voices.find(str(name)):
        raise WyomingError(f"The voice {name!r} has no speaker {speaker!r}.")
    raise WyomingError(f"There is no voice {name!r}; choose one of {voices.ids}.")


def text_in(data: Mapping[str, Any]) -> str:
    text = data.get("text")
    # JSON can name half of a surrogate pair, which no engine reads.
    if not isinstance(text, str) or _HALF_A_PAIR.search(text):
        raise WyomingError("Expected a text.")
    return text


def describe(voices: TextSpeakers) -> dict[str, Any]:
    styles: dict[str, list[TextSpeaker]] = {}
    for voice in voices.all():
        styles.setdefault(voice.character.manifest.id, []).append(voice)
    described = []
    for name, each in styles.items():
        manifest = each[0].character.manifest
        speakers = [{"name": style.style_name} for style in each if style.style_name]
        described.append(
            {
                "name": name,
                "description": manifest.name.en,
                "attribution": {
                    "name": manifest.credit or manifest.name.en,
                    "url": manifest.terms_url or "",
                },
                "installed": True,
                "version": None,
                "languages": list(each[0].engine.languages),
                "speakers": speakers or None,
            }
        )
    program: dict[str, Any] = {
        "name": "voice-avatar",
        "description": "Characters that speak",
        "attribution": {"name": "Voice Avatar", "url": ""},
        "installed": True,
        "version": None,
        "voices": described,
        "supports_synthesize_streaming": True,
    }
    kinds = ("asr", "handle", "intent", "wake", "mic", "snd")
    return {"tts": [program], **{kind: [] for kind in kinds}}


class WyomingSession:
    def __init__(self, server: WyomingServer, reader: StreamReader, writer: StreamWriter) -> None:
        self.activity = ConnectionActivity()
        self.is_speaking = False
        self._server, self._voices = server, server.voices
        self._reader, self._writer = reader, writer
        self._texts: asyncio.Queue[SynthesizeRequest | None] = asyncio.Queue(MOST_WAITING)
        self._coming: TextUtterance | None = None

    async def serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive())
                tasks.create_task(self._speak_all())
        except ExceptionGroup as errors:
            error = errors.exceptions[0]
            if isinstance(error, OSError | TimeoutError | SlowReaderError):
                _LOG.info("a client of Wyoming is gone, or does not read")
                self._writer.transport.abort()
            elif isinstance(error, _REFUSALS):
                is_busy = isinstance(error, OverloadedError | LimitReachedError)
                code = "busy" if is_busy else "bad_request"
                # Clients that wait for sound only see that the connection ends.
                with suppress(OSError, TimeoutError):
                    await self._send("error", {"text": str(error), "code": code})
            else:
                raise error from None
        except asyncio.CancelledError:
            # Nobody else waits for this task: the service ends.
            self._writer.transport.abort()
        finally:
            self._writer.close()

    async def _receive(self) -> None:
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                event = await read_event(self._reader)
            self.activity.note_message()
            # Events that are here already are read without waiting: a flood would hold the loop.
            await asyncio.sleep(0)
            if event is None:
                self._end_text()
                await self._texts.put(None)
                return
            if event.type == "describe":
                await self._send("info", describe(self._voices))
            elif event.type == "ping":
                await self._send("pong", {"text": event.data.get("text")})
            elif (request := self._request_of(event)) is not None:
                await self._texts.put(request)

    def _request_of(self, event: WyomingEvent) -> SynthesizeRequest | None:
        if event.type == "synthesize":
            # Clients that send a text in pieces send all of it again, for servers that know no
            # pieces.
            if self._coming is not None:
                return None
            voice, whole = find_voice(self._voices, event.data), text_in(event.data)
            text = TextUtterance()
            text.push(whole)
            text.end()
            return SynthesizeRequest(voice, text, whole)
        if event.type == "synthesize-start":
            voice = find_voice(self._voices, event.data)
            self._end_text()
            self._coming = TextUtterance()
            return SynthesizeRequest(voice, self._coming, None)
        if event.type == "synthesize-chunk" and self._coming is not None:
            self._coming.push(text_in(event.data))
        if event.type == "synthesize-stop":
            self._end_text()
        return None

    def _end_text(self) -> None:
        if self._coming is not None:
            self._coming.end()
            self._coming = None

    async def _speak_all(self) -> None:
        while (request := await self._texts.get()) is not None:
            self.is_speaking = True
            try:
                await self._speak(request)
            finally:
                self.is_speaking = False

    async def _speak(self, request: SynthesizeRequest) -> None:
        rate = request.voice.engine.sample_rate
        form = {"rate": rate, "width": _WIDTH, "channels": 1}
        has_begun, unread = False, dict[str, None]()
        spoken = speak_text_stream(
            self._server.synthesis,
            request.voice,
            request.text.sentences(),
            SpeechOptions(),
            SoundFormat(Codec.PCM, rate),
            whole=request.whole,
            count=lambda size: self._server.meter.count(None, "wyoming", characters=size),
        )
        async with aclosing(spoken) as pieces:
            async for piece in pieces:
                self.activity.note_sound()
                if piece.unread:
                    unread |= dict.fromkeys(piece.unread.split(", "))
                    continue
                if not has_begun:
                    await self._send("audio-start", form)
                    has_begun = True
                for begin in range(0, len(piece.sound), _PIECE_BYTES):
                    await self._send("audio-chunk", form, piece.sound[begin : begin + _PIECE_BYTES])
        if not has_begun:
            await self._send("audio-start", form)
        await self._send("audio-stop", {"unread": ", ".join(unread)} if unread else {})
        if request.whole is None:
            await self._send("synthesize-stopped", {})

    async def _send(self, kind: str, data: Mapping[str, Any], payload: bytes = b"") -> None:
        self._writer.write(WyomingEvent(kind, data, payload).write())
        async with asyncio.timeout(self._server.unread_seconds):
            await self._writer.drain()


class WyomingServer:
    def __init__(
        self,
        voices: TextSpeakers,
        synthesis: Synthesis,
        meter: Meter | None = None,
        unread_seconds: float = UNREAD_SECONDS,
    ) -> None:
        self.voices = voices
        self.synthesis = synthesis
        self.meter = meter or Meter()
        self.unread_seconds = unread_seconds
        self._sessions: dict[asyncio.Task[None], WyomingSession] = {}
        self._server: asyncio.Server | None = None

    @asynccontextmanager
    async def listen(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen inside of the context, and return the port; several processes may share one."""
        can_share = port != 0 and hasattr(socket, "SO_REUSEPORT")
        server = await asyncio.start_server(
            self._serve, host, port, limit=MOST_BYTES, reuse_port=can_share or None
        )
        self._server = server
        async with server:
            found: int = server.sockets[0].getsockname()[1]
            try:
                yield found
            finally:
                for task in self._sessions:
                    task.cancel()
                await asyncio.gather(*self._sessions, return_exceptions=True)

    async def retire(self) -> None:
        """Listen no more, and end each connection on which nothing is spoken, until cancelled."""
        if self._server is not None:
            self._server.close()
        while True:
            for task, session in self._sessions.items():
                if not session.is_speaking:
                    task.cancel()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        serving = asyncio.current_task()
        assert serving is not None  # noqa: S101 - for the type checker
        if len(self._sessions) >= MOST_CONNECTIONS:
            # A client that only holds connections keeps nobody out.
            longest = min(self._sessions, key=lambda each: self._sessions[each].activity.rank)
            del self._sessions[longest]
            longest.cancel()
        session = self._sessions[serving] = WyomingSession(self, reader, writer)
        try:
            await session.serve()
        finally:
            self._sessions.pop(serving, None)
