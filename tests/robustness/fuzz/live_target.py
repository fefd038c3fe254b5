"""The fuzzed target `live`: what a client of the WebSocket sends."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from functions.live.protocol import Close
from shared.voices.voice import Status
from tests.robustness.fuzz.harness import UncleanError
from tests.robustness.fuzz.mutation import documents, mutated
from tests.support.logs import log_book
from tests.support.virtual_time import VirtualTimeLoop
from tests.support.voices import a_waiting
from tests.unit.live.stage import DATA, LiveStage, an_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VOICE_ID = "3c7d1f2a-94be-4c0d-8f11-5a6b7c8d9e0f"
SEPARATOR = b"\n--\n"
TEXT = b"text:"
TICKET = "TICKET"
"""Stands for a valid ticket, so that a kept input means the same when it is replayed."""

START = {"type": "start", "ticket": TICKET, "content_type": "audio/webm"}
_CLOSES = frozenset(close.value for close in Close if close is not Close.INTERNAL)


def live_sessions() -> st.SearchStrategy[bytes]:
    """Sessions, most of them nearly valid: control messages, and pieces of a recording."""
    controls = st.one_of(
        documents(START),
        documents(an_end(DATA)),
        st.sampled_from([START, an_end(DATA), an_end(b""), {"type": "cancel"}]).map(_encoded),
    )
    pieces = st.one_of(st.binary(max_size=20), st.just(DATA), st.just(bytes(30_000)))
    messages = st.one_of(controls.map(TEXT.__add__), pieces, st.binary(max_size=30))
    begun = st.lists(messages, max_size=6).map(lambda each: [TEXT + _encoded(START), *each])
    good = [TEXT + _encoded(START), DATA, TEXT + _encoded(an_end(DATA))]
    return st.one_of(
        begun.map(SEPARATOR.join),
        st.lists(messages, max_size=6).map(SEPARATOR.join),
        mutated({"good": SEPARATOR.join(good)}, most=3),
    )


@contextmanager
def speaking_live() -> Iterator[Callable[[bytes], str]]:
    """Speak to the service over voices and buckets in memory, in a loop whose clock jumps."""
    voice = replace(a_waiting(), voice_id=VOICE_ID)

    async def speak(data: bytes) -> str:
        await stage.voices.delete(VOICE_ID)
        await stage.voices.create(voice)
        stage.uploads.objects.clear()
        client = stage.connect()
        for message in data.split(SEPARATOR):
            client.send(_message(message, stage.ticket(VOICE_ID)))
        with log_book() as book:
            await client.ended()
        if book.of("unexpected_error"):
            raise UncleanError("an unexpected error was logged")
        if client.close is None or client.close not in _CLOSES:
            raise UncleanError(f"closed with {client.close}")
        last = client.messages[-1] if client.messages else {"type": "nothing"}
        is_done = (await stage.voice(VOICE_ID)).status is Status.DONE
        if is_done != (last["type"] == "done"):
            raise UncleanError(f"the voice is done: {is_done}, and the client was told {last}")
        if is_done != bool(stage.uploads.objects):
            raise UncleanError("a recording is stored whose voice is not done")
        return str(client.close[1] or last.get("reason", last["type"]))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        stage = LiveStage(sockets=1, max_messages=8)
        yield lambda data: runner.run(speak(data))


def _encoded(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def _message(data: bytes, ticket: str) -> str | bytes:
    if not data.startswith(TEXT):
        return data
    # The server refuses text that is no UTF-8 before the application sees it.
    return data.removeprefix(TEXT).decode(errors="replace").replace(TICKET, ticket)
