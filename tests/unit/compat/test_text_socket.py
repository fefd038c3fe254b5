from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from functions.compat.service.keys import Access
from shared.speech.engines.interface import Mark, MarkedPiece
from tests.support.compat import KEY, heard, say, served_socket, socket_client, synthesis_of
from tests.support.speakers import Sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from websockets.asyncio.client import ClientConnection

    from shared.speech.engines.text_interface import SpeechOptions

TENTH = 2 * 2_400
"""The bytes of a sentence in PCM at 24 kHz."""


async def utter(client: ClientConnection, text: str, **fields: Any) -> None:
    await say(client, "begin", **fields)
    await say(client, "text", text=text)
    await say(client, "end")


async def test_sentences_are_spoken_as_soon_as_they_are_whole_and_others_are_told() -> None:
    engine = Sentences()
    async with served_socket(engine) as address, socket_client(address) as client:
        await say(client, "begin", voice="mei", speed=2.0)
        for token in ("こん", "にちは", "。今日"):
            await say(client, "text", text=token)
        first, _ = await heard(client, "sentence")
        async with asyncio.timeout(10):
            sound = await client.recv()
        spoken_by_then = list(engine.spoken)
        await say(client, "text", text="は晴れ。안녕하세요。")
        await say(client, "end")
        rest, more = await heard(client, "ended")

    assert first[0] == {
        "type": "begun",
        "voice": "mei",
        "format": "pcm_24000",
        "sample_rate": 24_000,
    }
    assert first[1] == {"type": "sentence", "text": "こんにちは。", "begin": 0.0}
    assert spoken_by_then == ["こんにちは"]
    assert rest[-3:] == [
        {"type": "sentence", "text": "今日は晴れ。", "begin": 0.1},
        {"type": "unread", "text": "안녕하세요。", "begin": 0.2, "unread": "Korean"},
        {"type": "ended", "seconds": 0.2},
    ]
    assert len(sound) + len(more) == 2 * TENTH
    assert {options.speed for options in engine.asked} == {2.0}


class MarkedSentences(Sentences):
    """Knows a word in the middle of each tenth of a second."""

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        return (
            MarkedPiece(piece, (Mark("word", text, 0.05), Mark("phone", "a", 0.05)))
            for piece in self.speak(text, options)
        )


async def test_marks_come_before_their_sound_when_they_are_asked_for() -> None:
    async with served_socket(MarkedSentences()) as address, socket_client(address) as client:
        await utter(client, "はい。い、え。", marks=True)
        messages, sound = await heard(client, "ended")
        await utter(client, "はい。")
        unasked, _ = await heard(client, "ended")

    marks = [mark for each in messages if each["type"] == "marks" for mark in each["marks"]]
    assert marks[:2] == [{"word": "はい。", "begin": 0.05}, {"phone": "a", "begin": 0.05}]
    assert [mark["begin"] for mark in marks if "word" in mark] == [0.05, 0.15, 0.25]
    assert [each["type"] for each in messages[:3]] == ["begun", "sentence", "marks"]
    assert len(sound) == 3 * TENTH
    assert "marks" not in [each["type"] for each in unasked]


async def test_a_flush_speaks_what_has_come_and_utterances_follow_each_other() -> None:
    engine = Sentences()
    async with served_socket(engine) as address, socket_client(address) as client:
        await say(client, "begin", format="ulaw_8000")
        await say(client, "text", text="はい")
        await say(client, "flush")
        await heard(client, "sentence")
        await say(client, "end")
        await utter(client, "いいえ")
        first, _ = await heard(client, "ended")
        second, sound = await heard(client, "ended")

    assert engine.spoken == ["はい", "いいえ"]
    assert first[-1]["seconds"] == 0.1
    assert [each["type"] for each in second][-1] == "ended"
    assert len(sound) == TENTH


async def test_a_cancel_is_answered_within_a_tenth_of_a_second_and_nothing_is_heard_after_it() -> (
    None
):
    engine = Sentences(gate=threading.Semaphore(0))
    async with served_socket(engine) as address, socket_client(address) as client:
        await say(client, "begin")
        await say(client, "text", text="あ、い。" * 3)
        await heard(client, "sentence")
        begin = time.monotonic()
        await say(client, "cancel")
        await heard(client, "cancelled")
        waited = time.monotonic() - begin
        assert engine.gate is not None
        engine.gate.release(20)
        await utter(client, "う。")
        messages, sound = await heard(client, "ended")

    assert waited < 0.1
    assert [each["type"] for each in messages] == ["begun", "sentence", "ended"]
    assert len(sound) == TENTH


async def test_what_cannot_be_begun_is_told_and_the_client_may_try_again() -> None:
    async with served_socket(Sentences()) as address, socket_client(address) as client:
        await utter(client, "はい。", voice="nobody")
        (unknown,), _ = await heard(client, "error")
        await utter(client, "はい。", format="mp3")
        (other,), _ = await heard(client, "error")
        await utter(client, "はい。")
        _, sound = await heard(client, "ended")

    assert (unknown["code"], other["code"]) == ("unknown_voice", "unknown_format")
    assert len(sound) == TENTH


@pytest.mark.parametrize(
    "message",
    [
        "no json",
        '{"type": "sing"}',
        '{"type": "begin", "speed": 9}',
        '{"type": "begin", "more": 1}',
        b"sound",
        "x" * 70_000,
    ],
    ids=lambda message: str(message[:30]),
)
async def test_a_message_that_cannot_be_taken_ends_the_connection(message: str | bytes) -> None:
    async with served_socket(Sentences()) as address:
        async with socket_client(address) as client:
            await client.send(message)
            with pytest.raises(ConnectionClosed) as closed:
                await heard(client, "nothing more")
        async with socket_client(address) as other:
            await say(other, "begin")
            await heard(other, "begun")

    assert closed.value.rcvd is None or closed.value.rcvd.code in {1008, 1009}


async def test_a_page_sends_its_key_as_a_subprotocol() -> None:
    access = Access({"page": KEY})
    async with served_socket(Sentences(), access) as address:
        async with socket_client(address, f"key.{KEY}") as client:
            await say(client, "begin")
            await heard(client, "begun")
        headers = {"Authorization": f"Bearer {KEY}"}
        async with socket_client(address, additional_headers=headers) as client:
            await say(client, "begin")
            await heard(client, "begun")
        with pytest.raises(InvalidStatus) as refused:
            async with socket_client(address, "key.another"):
                pass

    assert refused.value.response.status_code == 401


async def test_a_client_that_leaves_or_idles_keeps_no_place() -> None:
    engine = Sentences(gate=threading.Semaphore(0))
    async with served_socket(engine, most=1, idle_seconds=0.3) as address:
        async with socket_client(address) as client:
            await say(client, "begin")
            await say(client, "text", text="あ。い。")
            await heard(client, "sentence")
        async with socket_client(address) as client:
            with pytest.raises(ConnectionClosed):
                await heard(client, "nothing more")
        async with socket_client(address) as client:
            await utter(client, "う。")
            _, sound = await heard(client, "ended")

    assert len(sound) == TENTH


async def test_who_only_holds_connections_keeps_out_nobody_and_ends_nobody_who_hears() -> None:
    gate = threading.Semaphore(0)
    async with (
        served_socket(Sentences(gate=gate), synthesis=synthesis_of(2), most=2) as address,
        socket_client(address) as hears,
        socket_client(address) as idles,
    ):
        await utter(hears, "あ、い。")
        await heard(hears, "sentence")
        # A text that never ends holds its place no better.
        await say(idles, "begin")
        await heard(idles, "begun")
        async with socket_client(address) as client:
            with pytest.raises(ConnectionClosed) as closed:
                await heard(idles, "nothing more")
            await utter(client, "う、え。")
            await heard(client, "sentence")
            async with socket_client(address) as another:
                with pytest.raises(ConnectionClosed) as refused:
                    await heard(another, "nothing more")
            gate.release(2)
            _, sound = await heard(hears, "ended")

    assert len(sound) == 2 * TENTH
    for each in (closed.value, refused.value):
        assert each.rcvd is not None
        assert (each.rcvd.code, each.rcvd.reason) == (1013, "busy")


async def test_one_key_has_half_of_the_connections() -> None:
    access = Access({"greedy": KEY, "honest": KEY[::-1]})
    async with served_socket(Sentences(), access, most=4) as address, AsyncExitStack() as held:
        honest = await held.enter_async_context(socket_client(address, f"key.{KEY[::-1]}"))
        greedy = [
            await held.enter_async_context(socket_client(address, f"key.{KEY}")) for _ in range(6)
        ]
        for client in (honest, *greedy[-2:]):
            await say(client, "begin")
            await heard(client, "begun")
        for client in greedy[:-2]:
            with pytest.raises(ConnectionClosed):
                await heard(client, "nothing more")
