"""The fuzzed targets of `compat`: what its clients send, over HTTP, WebSockets and TCP."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx
import numpy as np
import pyopenjtalk
from hypothesis import strategies as st

from functions.compat import elevenlabs, openai, text_socket
from functions.compat.elevenlabs import RecordingLimits, Recordings
from functions.compat.service.synthesis import SpeechLimits, Synthesis
from functions.compat.service.voices import TextSpeakers, text_speakers_of
from functions.compat.text_socket import PATH, SUBPROTOCOL
from functions.compat.voicevox import app as voicevox
from functions.compat.voicevox.speakers import (
    SpeakerStyle,
    VoicevoxSpeaker,
    VoicevoxSpeakers,
)
from functions.compat.voicevox.user_data import UserData
from functions.compat.wyoming import WyomingServer
from shared.container.admission import Admission
from shared.speech.decoding.decoder import Decoder
from shared.speech.engines.japanese import HtsVoice, JapaneseEngine
from shared.speech.results.audio_files import write_wav
from tests.robustness.fuzz.harness import UncleanError
from tests.robustness.fuzz.mutation import documents, mutated
from tests.support.speakers import RATE, Mirror, Sentences, a_speaker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB: Final = 1 << 20
SEPARATOR: Final = b"\n--\n"
SPEECH: Final = {"model": "tts-1", "voice": "mei", "input": "はい。", "response_format": "wav"}
STYLE: Final = 7
QUERY: Final = {
    "accent_phrases": [
        {
            "moras": [
                {"text": "ハ", "consonant": "h", "vowel": "a", "vowel_length": 0.1, "pitch": 5.0},
                {"text": "イ", "vowel": "i", "vowel_length": 0.1, "pitch": 5.0},
            ],
            "accent": 1,
            "is_interrogative": False,
        }
    ],
    "speedScale": 1.0,
    "pitchScale": 0.0,
    "intonationScale": 1.0,
    "volumeScale": 1.0,
    "prePhonemeLength": 0.1,
    "postPhonemeLength": 0.1,
    "pauseLength": None,
    "pauseLengthScale": 1.0,
    "outputSamplingRate": RATE,
    "outputStereo": False,
}
TONE: Final = (0.3 * np.sin(np.arange(RATE) / 20)).astype(np.float32)


def _room() -> tuple[TextSpeakers, Synthesis, Admission]:
    voices = TextSpeakers(text_speakers_of({"mei": a_speaker("mei", Sentences())}), {})
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
class VoicevoxTarget:
    """Paths and bodies of VOICEVOX's routes, spoken by the built-in Japanese voice."""

    name: str = "voicevox"
    seconds: float = 10.0
    memory_bytes: int = 192 * MIB

    @cached_property
    def inputs(self) -> st.SearchStrategy[bytes]:
        """A path, and a body after it; most of them nearly valid."""
        wave = base64.b64encode(write_wav(TONE[:800], RATE)).decode()
        query = QUERY | {"kana": "はい。"}
        word = {
            "surface": "卍丸",
            "pronunciation": "マンジマル",
            "accent_type": 1,
            "priority": 5,
            "part_of_speech": "名詞",
            "part_of_speech_detail_1": "固有名詞",
            "part_of_speech_detail_2": "一般",
            "part_of_speech_detail_3": "*",
            "inflectional_type": "*",
            "inflectional_form": "*",
            "stem": "*",
            "yomi": "マンジマル",
            "mora_count": 5,
            "accent_associative_rule": "*",
        }
        preset = {
            key: value
            for key, value in QUERY.items()
            if key not in ("accent_phrases", "outputSamplingRate", "outputStereo")
        } | {"id": 1, "name": "fast", "speaker_uuid": "u", "style_id": STYLE}
        examples: dict[str, Any] = {
            "/synthesis": query,
            "/streaming_synthesis": QUERY,
            "/multi_synthesis": [query, QUERY],
            "/mora_data": QUERY["accent_phrases"],
            "/connect_waves": [wave, wave],
            "/add_preset": preset,
            "/import_user_dict?override=true": {str(uuid.UUID(int=7)): word},
        }
        bodies = [
            documents(body).map(partial(_after, path if "?" in path else f"{path}?speaker={STYLE}"))
            for path, body in examples.items()
        ]
        seeds = {
            path: _after(f"{path}?speaker={STYLE}", _encoded(body))
            for path, body in examples.items()
        }
        texts = st.text(max_size=60).map(
            lambda text: _after(f"/audio_query?speaker={STYLE}&text={quote(text)}", b"")
        )
        kana = st.text("アイ、/'_\uff1fンッ", max_size=20).map(
            lambda text: _after(
                f"/accent_phrases?speaker={STYLE}&is_kana=true&text={quote(text)}", b""
            )
        )
        return st.one_of(*bodies, mutated(seeds, most=3), texts, kana)

    @contextmanager
    def open(self) -> Iterator[Callable[[bytes], str]]:
        """Build the application with the voice that Mei speaks with."""
        user_data, admission = UserData.open(), Admission(running=2, waiting=8)
        front_end = user_data.front_end()
        voice = HtsVoice(Path(pyopenjtalk.DEFAULT_HTS_VOICE.decode()))
        engine = JapaneseEngine(voice, front_end, sample_rate=RATE)
        styles = (SpeakerStyle(STYLE, "a", engine, 0),)
        voices = VoicevoxSpeakers(
            [VoicevoxSpeaker(str(uuid.UUID(int=1)), "a", "1", "", b"", styles)]
        )
        synthesis = Synthesis(admission, SpeechLimits(seconds=30.0))
        app = voicevox.build(voicevox.VoicevoxServices(voices, user_data, synthesis))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        with asyncio.Runner() as runner:
            yield lambda data: runner.run(self._send(transport, data))

    async def _send(self, transport: httpx.ASGITransport, data: bytes) -> str:
        path, _, body = data.partition(b"\n")
        return await _ask(transport, "/" + quote(path.lstrip(b"/"), safe="/?&=%"), body, {})


def _after(path: str, body: bytes) -> bytes:
    return path.encode() + b"\n" + body


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
            app = elevenlabs.build(
                characters, TextSpeakers(text_speakers_of(characters), {}), recordings, synthesis
            )
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
            app = text_socket.build(text_socket.SpeechSockets(voices, synthesis, idle_seconds=2.0))
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
            listening = server.listen("127.0.0.1", 0)
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
    if answer.is_success:
        return str(answer.status_code)
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
