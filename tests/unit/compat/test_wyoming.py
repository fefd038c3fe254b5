from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from functions.compat.wyoming import MOST_BYTES, MOST_CONNECTIONS
from tests.support.compat import served_wyoming
from tests.support.speakers import RATE, Sentences

if TYPE_CHECKING:
    from wyoming.event import Event


async def heard(client: AsyncTcpClient, last: type[Any] = AudioStop) -> list[Event]:
    events: list[Event] = []
    async with asyncio.timeout(10):
        while not events or not last.is_type(events[-1].type):
            event = await client.read_event()
            assert event is not None, events
            events.append(event)
    return events


def sound_of(events: list[Event]) -> bytes:
    return b"".join(AudioChunk.from_event(each).audio for each in events if each.payload)


async def test_home_assistant_finds_voices_speakers_and_languages() -> None:
    speaker = Sentences(languages=("en", "ja"))
    async with served_wyoming(speaker) as port, AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Describe().event())
        (event,) = await heard(client, Info)
        await client.write_event(Ping("here?").event())
        (pong,) = await heard(client, Pong)

    info = Info.from_event(event)
    (program,) = info.tts
    (voice,) = program.voices
    assert program.supports_synthesize_streaming
    assert (voice.name, voice.description, voice.languages) == ("mei", "Mei", ["en", "ja"])
    assert [each.name for each in voice.speakers or []] == ["happy"]
    assert voice.attribution.name == "Voice: somebody"
    assert Pong.from_event(pong).text == "here?"


async def test_a_text_is_spoken_in_the_voice_and_style_and_what_is_left_out_is_named() -> None:
    engine = Sentences()
    async with served_wyoming(engine) as port, AsyncTcpClient("127.0.0.1", port) as client:
        voice = SynthesizeVoice(name="mei", speaker="happy")
        await client.write_event(Synthesize("はい。안녕。Привет. いいえ。", voice).event())
        events = await heard(client)
        await client.write_event(Synthesize("안녕하세요。").event())
        *_, refused = await heard(client, Error)

    start = AudioStart.from_event(events[0])
    assert (start.rate, start.width, start.channels) == (RATE, 2, 1)
    assert len(sound_of(events)) == 2 * 2 * 2_400
    assert {options.style for options in engine.asked} == {7}
    assert events[-1].data["unread"] == "Korean, Cyrillic"
    assert "in Korean" in Error.from_event(refused).text


async def test_a_text_in_pieces_is_spoken_before_its_end_is_known() -> None:
    engine = Sentences()
    async with served_wyoming(engine) as port, AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(SynthesizeStart(SynthesizeVoice(name="mei")).event())
        for token in ("は", "い。い"):
            await client.write_event(SynthesizeChunk(token).event())
        first = await heard(client, AudioChunk)
        spoken_by_then = list(engine.spoken)
        await client.write_event(SynthesizeChunk("いえ").event())
        # Clients send the whole text again, for servers that know no pieces.
        await client.write_event(Synthesize("はい。いいえ").event())
        await client.write_event(SynthesizeStop().event())
        rest = await heard(client, SynthesizeStopped)

    assert spoken_by_then == ["はい"]
    assert engine.spoken == ["はい", "いいえ"]
    assert [each.type for each in (*first, *rest)] == [
        *("audio-start", "audio-chunk", "audio-chunk", "audio-stop", "synthesize-stopped")
    ]


@pytest.mark.parametrize(
    ("voice", "sentence"),
    [
        (SynthesizeVoice(name="nobody"), "choose one of mei"),
        (SynthesizeVoice(name="mei", speaker="loud"), "The voice 'mei' has no speaker 'loud'"),
    ],
    ids=["voice", "speaker"],
)
async def test_a_voice_that_is_not_there_is_refused_with_a_reason(
    voice: SynthesizeVoice, sentence: str
) -> None:
    async with served_wyoming(Sentences()) as port, AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Synthesize("はい。", voice).event())
        *_, last = await heard(client, Error)
        assert await client.read_event() is None

    assert sentence in Error.from_event(last).text


@pytest.mark.parametrize(
    "content",
    [
        b"no json\n",
        b'{"type": "synthesize", "data": {"text": 5}}\n',
        b'{"type": "synthesize-start"}\n{"type":"synthesize-chunk","data":{"text":"\\udfff"}}\n',
        b'{"type": "describe", "data_length": -1}\n',
        b'{"type": "describe", "payload_length": 1000000000}\n',
        b"x" * (MOST_BYTES + 10),
        b"[" * 60_000 + b"\n",
    ],
    ids=lambda content: content[:40].decode(),
)
async def test_bytes_that_are_no_event_end_the_connection_with_a_reason(content: bytes) -> None:
    async with served_wyoming(Sentences()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(content)
        if content.startswith(b"x"):
            writer.write_eof()
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
        # Others are served all the same.
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Describe().event())
            await heard(client, Info)

    header = json.loads(answer.splitlines()[0])
    assert header["type"] == "error"


async def test_half_a_character_in_a_ping_or_of_a_connection_ends_nothing() -> None:
    async with served_wyoming(Sentences()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b'{"type": "ping", "data": {"text": "\\ud800"}}\n')
        async with asyncio.timeout(10):
            answer = await reader.readline()
            await reader.readexactly(json.loads(answer)["data_length"])
        writer.write(b'{"type": "synthesize", "data": {"text": "\xe3\x81\x82\xe3\x80\x82"}}\n')
        writer.write_eof()
        async with asyncio.timeout(10):
            rest = await reader.read()
        writer.close()

    assert json.loads(answer)["type"] == "pong"
    assert b"audio-stop" in rest


async def test_a_client_that_leaves_or_reads_nothing_loses_its_speech_and_its_place() -> None:
    engine = Sentences()
    async with served_wyoming(engine, unread_seconds=0.2) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        line = Synthesize("あ。" * 1_500).event()
        content = json.dumps({"type": line.type, "data": line.data}).encode() + b"\n"
        writer.write(content * 6)
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Synthesize("い。" * 1_500).event())
            await heard(client, AudioChunk)
        await asyncio.sleep(0.5)
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Synthesize("はい。").event())
            events = await heard(client)
        writer.transport.abort()

    assert sound_of(events)
    assert engine.spoken.count("あ") < 6 * 1_500
    assert engine.spoken.count("い") < 1_500


async def test_who_only_holds_connections_keeps_out_nobody_and_ends_nobody_who_hears() -> None:
    engine = Sentences(gate=threading.Semaphore(0))
    async with served_wyoming(engine) as port, AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Synthesize("はい、いいえ。").event())
        begun = await heard(client, AudioChunk)
        held = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS + 1)
        ]
        async with asyncio.timeout(10):
            # The oldest made room.
            assert await held[0][0].read() == b""
        assert engine.gate is not None
        engine.gate.release()
        rest = await heard(client)
        async with AsyncTcpClient("127.0.0.1", port) as another:
            await another.write_event(Synthesize("はい。").event())
            assert sound_of(await heard(another))
        for _, writer in held:
            writer.close()

    assert len(sound_of(begun + rest)) == 2 * 2 * RATE // 10


async def test_a_flood_of_events_does_not_hold_the_loop() -> None:
    events, turns = 5_000, 0
    async with served_wyoming(Sentences()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b'{"type":"nothing that anybody knows"}\n' * events + b'{"type":"ping"}\n')
        answered = asyncio.create_task(reader.readline())
        while not answered.done():
            turns += 1
            await asyncio.sleep(0)
        writer.close()

    assert b"pong" in await answered
    # Others have a turn after each event, not after each packet of a thousand of them.
    assert turns > events
