"""The fuzzed targets of `compat`: what its clients send, over HTTP, WebSockets and TCP."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import httpx
import numpy as np
from hypothesis import strategies as st

from conversion.admission import Admission
from functions.compat.elevenlabs import routes as elevenlabs
from functions.compat.elevenlabs.recordings import RecordingLimits, Recordings
from functions.compat.openai import routes as openai
from functions.compat.running import routes as running
from functions.compat.running.protocol import PATH, SUBPROTOCOL
from functions.compat.speech.synthesis import SpeechLimits, Synthesis
from functions.compat.speech.voices import TextVoices, text_voices_of
from functions.compat.wyoming.server import WyomingServer
from speech.decoding.decoder import Decoder
from speech.results.wav import write_wav
from tests.fuzz.harness import UncleanError
from tests.fuzz.mutation import documents, mutated
from tests.support.speakers import RATE, Mirror, Sentences, a_speaker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB: Final = 1 << 20
SEPARATOR: Final = b"\n--\n"
SPEECH: Final = {"model": "tts-1", "voice": "mei", "input": "はい。", "response_format": "wav"}
TONE: Final = (0.3 * np.sin(np.arange(RATE) / 20)).astype(np.float32)


def _room() -> tuple[TextVoices, Synthesis, Admission]:
    voices = TextVoices(text_voices_of({"mei": a_speaker("mei", Sentences())}), {})
    admission = Admission(running=2, waiting=8)
    return voices, Synthesis(admission, SpeechLimits(seconds=30.0)), admission


def _encoded(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


@dataclass
class SpeechApiTarget:
    """Bodies of `POST /v1/audio/speech`."""

    name: str = "speech-api"
    seconds: float = 5.0
    memory_bytes: int = 96 * MIB

    @cached_property
    def inputs(self) -> st.SearchStrategy[bytes]:
        """Requests, most of them nearly valid."""
        more = {"speed": 2.0, "stream_format": "sse", "instructions": "x", "extra": [1]}
        good = {"good": _encoded(SPEECH), "more": _encoded(SPEECH | more)}
        return st.one_of(documents(SPEECH | more), mutated(good, most=4))

    @contextmanager
    def open(self) -> Iterator[Callable[[bytes], str]]:
        """Build the application."""
        voices, synthesis, _ = _room()
        transport = httpx.ASGITransport(openai.build(voices, synthesis), raise_app_exceptions=False)
        with asyncio.Runner() as runner:
            yield lambda data: runner.run(_ask(transport, "/v1/audio/speech", data, {}))


@dataclass
class VoiceChangerTarget:
    """Forms of `POST /v1/speech-to-speech/{voice_id}`."""

    name: str = "voice-changer"
    seconds: float = 10.0
    memory_bytes: int = 128 * MIB

    @cached_property
    def inputs(self) -> st.SearchStrategy[bytes]:
        """Forms with a recording, damaged."""
        good = _form(audio=write_wav(TONE, RATE), seed=b"7", file_format=b"other")
        raw = _form(audio=TONE.tobytes()[:3200], file_format=b"pcm_s16le_16")
        return mutated({"good": good, "raw": raw, "empty": _form(), "twice": good + good}, most=4)

    @contextmanager
    def open(self) -> Iterator[Callable[[bytes], str]]:
        """Build the application with a real decoder."""
        _, synthesis, admission = _room()
        headers = {"content-type": "multipart/form-data; boundary=frontier"}
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()
            decoder = runner.run(stack.enter_async_context(Decoder()))
            recordings = Recordings(decoder, admission, RecordingLimits(max_seconds=30.0))
            characters = {"mei": a_speaker("mei", Sentences(), Mirror())}
            app = elevenlabs.build(characters, recordings, synthesis)
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            path = "/v1/speech-to-speech/mei/stream?output_format=pcm_24000"
            try:
                yield lambda data: runner.run(_ask(transport, path, data, headers))
            finally:
                runner.run(stack.aclose())


@dataclass
class RunningTextTarget:
    """Messages of one WebSocket of `voice-avatar.speech.v1`, one after another."""

    name: str = "text-in-pieces"
    seconds: float = 5.0
    memory_bytes: int = 64 * MIB

    @cached_property
    def inputs(self) -> st.SearchStrategy[bytes]:
        """Sessions, most of them nearly valid."""
        kinds: list[dict[str, Any]] = [
            {"type": kind} for kind in ("begin", "flush", "end", "cancel")
        ]
        said = {"type": "text", "text": "はい。いいえ"}
        begin = {"type": "begin", "voice": "mei", "format": "pcm_8000", "speed": 2.0}
        messages = st.one_of(
            documents(begin),
            documents(said),
            st.sampled_from([_encoded(each) for each in (*kinds, said)]),
        )
        good = SEPARATOR.join((_encoded(begin), _encoded(said), _encoded({"type": "end"})))
        return st.one_of(
            st.lists(messages, max_size=8).map(SEPARATOR.join), mutated({"good": good}, most=3)
        )

    @contextmanager
    def open(self) -> Iterator[Callable[[bytes], str]]:
        """Build the application."""
        with asyncio.Runner() as runner:
            voices, synthesis, _ = _room()
            app = running.build(running.SpeechSockets(voices, synthesis, idle_seconds=2.0))
            yield lambda data: runner.run(self._speak(app, data))

    async def _speak(self, app: Any, data: bytes) -> str:
        coming: list[dict[str, Any]] = [{"type": "websocket.connect"}]
        coming += [
            {"type": "websocket.receive", "text": each.decode(errors="replace")}
            for each in data.split(SEPARATOR)
        ]
        coming.append({"type": "websocket.disconnect", "code": 1000})
        messages, sent = iter(coming), list[dict[str, Any]]()

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return next(messages)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": PATH, "headers": [], "query_string": b""}
        await app(scope | {"subprotocols": [SUBPROTOCOL]}, receive, send)
        told = [json.loads(each["text"]) for each in sent if each.get("text")]
        for each in told:
            if each["type"] == "error" and not each["message"]:
                raise UncleanError("an error without a sentence")
        closes = [each for each in sent if each["type"] == "websocket.close"]
        return str(closes[0]["reason"] if closes else told[-1]["type"] if told else "nothing")


@dataclass
class WyomingTarget:
    """What a client of Wyoming sends over TCP."""

    name: str = "wyoming"
    seconds: float = 5.0
    memory_bytes: int = 64 * MIB

    @cached_property
    def inputs(self) -> st.SearchStrategy[bytes]:
        """Events, damaged."""
        data = _encoded({"text": "はい。", "voice": {"name": "mei"}})
        header = {"type": "synthesize", "data_length": len(data)}
        whole = _encoded(header) + b"\n" + data
        kinds = ("describe", "ping", "synthesize-start", "synthesize-stop", "other")
        events = [_encoded({"type": kind}) + b"\n" for kind in kinds]
        events.append(_encoded({"type": "synthesize-chunk", "data": {"text": "はい"}}) + b"\n")
        sessions = st.lists(st.sampled_from([*events, whole]), max_size=6).map(b"".join)
        seeds = {"whole": whole, "all": b"".join(events) + whole}
        return st.one_of(
            sessions,
            documents(header).map(lambda each: each + b"\n" + data),
            mutated(seeds, most=3),
        )

    @contextmanager
    def open(self) -> Iterator[Callable[[bytes], str]]:
        """Serve at a free port."""
        with asyncio.Runner() as runner:
            voices, synthesis, _ = _room()
            server = WyomingServer(voices, synthesis)
            listening = server.listening("127.0.0.1", 0)
            port = runner.run(listening.__aenter__())
            try:
                yield lambda data: runner.run(self._send(port, data))
            finally:
                runner.run(listening.__aexit__(None, None, None))

    async def _send(self, port: int, data: bytes) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            writer.write_eof()
            answer = await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()
        first, _, _ = answer.partition(b"\n")
        return str(json.loads(first)["type"]) if first else "nothing"


async def _ask(
    transport: httpx.ASGITransport, path: str, data: bytes, headers: dict[str, str]
) -> str:
    async with httpx.AsyncClient(transport=transport, base_url="http://compat.test") as client:
        answer = await client.post(path, content=data, headers=headers)
    if answer.status_code == httpx.codes.OK:
        return "200"
    if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise UncleanError(f"answered {answer.status_code} {answer.text[:200]}")
    body = answer.json()
    if not (body.get("error") or body.get("detail")):
        raise UncleanError(f"answered {body}")
    return str(answer.status_code)


def _form(**fields: bytes) -> bytes:
    parts = []
    for name, content in fields.items():
        file = b'; filename="a.wav"' if name == "audio" else b""
        head = b'Content-Disposition: form-data; name="' + name.encode() + b'"' + file
        parts.append(b"--frontier\r\n" + head + b"\r\n\r\n" + content + b"\r\n")
    return b"".join(parts) + b"--frontier--\r\n"
