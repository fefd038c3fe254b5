"""The fuzzed targets of `compat`: what its clients send, over HTTP, WebSockets and TCP."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from contextlib import contextmanager
from functools import partial
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
from functions.compat.service.texts import TextSpeakers, text_speakers_of
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
from tests.robustness.fuzz.harness import MIB, Target, UncleanError
from tests.robustness.fuzz.mutation import documents, mutated
from tests.support.speakers import RATE, Mirror, Sentences, a_speaker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def _speech_requests() -> st.SearchStrategy[bytes]:
    more = {"speed": 2.0, "stream_format": "sse", "instructions": "x", "extra": [1]}
    good = {"good": _encoded(SPEECH), "more": _encoded(SPEECH | more)}
    return st.one_of(documents(SPEECH | more), mutated(good, most=4))


@contextmanager
def _speech_api() -> Iterator[Callable[[bytes], str]]:
    """Post bodies to `/v1/audio/speech`."""
    voices, synthesis, _ = _room()
    transport = httpx.ASGITransport(openai.build(voices, synthesis), raise_app_exceptions=False)
    with asyncio.Runner() as runner:
        yield lambda data: runner.run(_ask(transport, "/v1/audio/speech", data, {}))


def _voicevox_requests() -> st.SearchStrategy[bytes]:
    """A path of VOICEVOX's routes, and a body after it."""
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
    left_out = {"accent_phrases", "outputSamplingRate", "outputStereo"}
    preset = {key: QUERY[key] for key in QUERY.keys() - left_out}
    preset |= {"id": 1, "name": "fast", "speaker_uuid": "u", "style_id": STYLE}
    speaker = f"?speaker={STYLE}"
    examples: dict[str, Any] = {
        f"/synthesis{speaker}": query,
        f"/streaming_synthesis{speaker}": QUERY,
        f"/multi_synthesis{speaker}": [query, QUERY],
        f"/mora_data{speaker}": QUERY["accent_phrases"],
        f"/connect_waves{speaker}": [wave, wave],
        f"/add_preset{speaker}": preset,
        "/import_user_dict?override=true": {str(uuid.UUID(int=7)): word},
    }
    bodies = [documents(body).map(partial(_after, path)) for path, body in examples.items()]
    seeds = {path: _after(path, _encoded(body)) for path, body in examples.items()}
    texts = st.text(max_size=60).map(
        lambda text: _after(f"/audio_query{speaker}&text={quote(text)}", b"")
    )
    kana = st.text("アイ、/'_\uff1fンッ", max_size=20).map(
        lambda text: _after(f"/accent_phrases{speaker}&is_kana=true&text={quote(text)}", b"")
    )
    return st.one_of(*bodies, mutated(seeds, most=3), texts, kana)


@contextmanager
def _voicevox() -> Iterator[Callable[[bytes], str]]:
    """Ask for what the voice says that Mei speaks with."""
    user_data, admission = UserData.open(), Admission(running=2, waiting=8)
    voice = HtsVoice(Path(pyopenjtalk.DEFAULT_HTS_VOICE.decode()))
    engine = JapaneseEngine(voice, user_data.front_end(), sample_rate=RATE)
    styles = (SpeakerStyle(STYLE, "a", engine, 0),)
    voices = VoicevoxSpeakers([VoicevoxSpeaker(str(uuid.UUID(int=1)), "a", "1", "", b"", styles)])
    synthesis = Synthesis(admission, SpeechLimits(seconds=30.0))
    app = voicevox.build(voicevox.VoicevoxServices(voices, user_data, synthesis))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    def send(data: bytes) -> str:
        path, _, body = data.partition(b"\n")
        url = "/" + quote(path.lstrip(b"/"), safe="/?&=%")
        return runner.run(_ask(transport, url, body, {}))

    with asyncio.Runner() as runner:
        yield send


def _after(path: str, body: bytes) -> bytes:
    return path.encode() + b"\n" + body


def _voice_changer_forms() -> st.SearchStrategy[bytes]:
    good = _form(audio=write_wav(TONE, RATE), seed=b"7", file_format=b"other")
    raw = _form(audio=TONE.tobytes()[:3200], file_format=b"pcm_s16le_16")
    return mutated({"good": good, "raw": raw, "empty": _form(), "twice": good + good}, most=4)


@contextmanager
def _voice_changer() -> Iterator[Callable[[bytes], str]]:
    """Post forms to `/v1/speech-to-speech/{voice_id}`, with a real decoder."""
    _, synthesis, admission = _room()
    headers = {"content-type": "multipart/form-data; boundary=frontier"}
    with asyncio.Runner() as runner:
        decoder = Decoder()
        recordings = Recordings(decoder, admission, RecordingLimits(max_seconds=30.0))
        characters = {"mei": a_speaker("mei", Sentences(), Mirror())}
        speakers = TextSpeakers(text_speakers_of(characters), {})
        app = elevenlabs.build(characters, speakers, recordings, synthesis)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        path = "/v1/speech-to-speech/mei/stream?output_format=pcm_24000"
        try:
            yield lambda data: runner.run(_ask(transport, path, data, headers))
        finally:
            runner.run(decoder.aclose())


def _texts_in_pieces() -> st.SearchStrategy[bytes]:
    """The messages of sessions of `voice-avatar.speech.v1`."""
    kinds: list[dict[str, Any]] = [{"type": kind} for kind in ("begin", "flush", "end", "cancel")]
    said = {"type": "text", "text": "はい。いいえ"}
    begin = {"type": "begin", "voice": "mei", "format": "pcm_8000", "speed": 2.0}
    plain = st.sampled_from([_encoded(each) for each in (*kinds, said)])
    messages = st.one_of(documents(begin), documents(said), plain)
    good = SEPARATOR.join((_encoded(begin), _encoded(said), _encoded({"type": "end"})))
    return st.one_of(
        st.lists(messages, max_size=8).map(SEPARATOR.join), mutated({"good": good}, most=3)
    )


@contextmanager
def _text_socket() -> Iterator[Callable[[bytes], str]]:
    voices, synthesis, _ = _room()
    app = text_socket.build(text_socket.SpeechSockets(voices, synthesis, idle_seconds=2.0))

    async def speak(data: bytes) -> str:
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
        if any(each["type"] == "error" and not each["message"] for each in told):
            raise UncleanError("an error without a sentence")
        closes = [each for each in sent if each["type"] == "websocket.close"]
        return str(closes[0]["reason"] if closes else told[-1]["type"] if told else "nothing")

    with asyncio.Runner() as runner:
        yield lambda data: runner.run(speak(data))


def _wyoming_sessions() -> st.SearchStrategy[bytes]:
    data = _encoded({"text": "はい。", "voice": {"name": "mei"}})
    header = {"type": "synthesize", "data_length": len(data)}
    whole = _encoded(header) + b"\n" + data
    kinds = ("describe", "ping", "synthesize-start", "synthesize-stop", "other")
    events = [_encoded({"type": kind}) + b"\n" for kind in kinds]
    events.append(_encoded({"type": "synthesize-chunk", "data": {"text": "はい"}}) + b"\n")
    return st.one_of(
        st.lists(st.sampled_from([*events, whole]), max_size=6).map(b"".join),
        documents(header).map(lambda each: each + b"\n" + data),
        mutated({"whole": whole, "all": b"".join(events) + whole}, most=3),
    )


@contextmanager
def _wyoming() -> Iterator[Callable[[bytes], str]]:
    """Send events over TCP."""

    async def send(data: bytes) -> str:
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

    with asyncio.Runner() as runner:
        voices, synthesis, _ = _room()
        listening = WyomingServer(voices, synthesis).listen("127.0.0.1", 0)
        port = runner.run(listening.__aenter__())
        try:
            yield lambda data: runner.run(send(data))
        finally:
            runner.run(listening.__aexit__(None, None, None))


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


COMPAT_TARGETS: Final = {
    "speech-api": Target(_speech_requests, _speech_api, memory_bytes=96 * MIB),
    "voicevox": Target(_voicevox_requests, _voicevox, seconds=10.0, memory_bytes=192 * MIB),
    "voice-changer": Target(
        _voice_changer_forms, _voice_changer, seconds=10.0, memory_bytes=128 * MIB
    ),
    "text-in-pieces": Target(_texts_in_pieces, _text_socket),
    "wyoming": Target(_wyoming_sessions, _wyoming),
}
