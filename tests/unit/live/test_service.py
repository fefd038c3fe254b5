"""The messages and answers to the client of one connection, and the end of its voice."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from functions.live import protocol
from functions.live.protocol import (
    MalformedError,
)
from shared.pipeline import LIVE
from shared.speech.decoding.process_output import ResourceLimitError
from shared.speech.engines.interface import EarlyPieces
from shared.voices import voice as voices_of
from shared.voices.objects import ObjectExistsError, StorageUnavailableError
from shared.voices.store import change, conversion_answer
from shared.voices.voice import ErrorCode, Status, new_voice_id
from tests.support.conversion import SOUND
from tests.support.logs import log_book
from tests.support.own_character_contract import MANY, a_ready
from tests.support.virtual_time import in_virtual_time, no_lost_errors, settle
from tests.support.voices import ERROR, a_waiting, an_upload
from tests.unit.live.stage import (
    DATA,
    LISTENING_SECONDS,
    MAX_BYTES,
    SITE,
    LiveStage,
    an_end,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from functions.live.stream import RecordingStreams
    from shared.voices.voice import Voice
    from tests.unit.live.stage import Client


@pytest.fixture
def stage() -> LiveStage:
    return LiveStage()


def retried(reason: str, *, stored: bool) -> dict[str, Any]:
    return {"type": "retry", "reason": reason, "stored": stored}


@in_virtual_time
async def test_a_recording_is_converted_and_everything_is_stored(stage: LiveStage) -> None:
    voice_id = await stage.add()

    client = await stage.speak(voice_id).ended()

    voice = await stage.voice(voice_id)
    assert client.types == ["ready", "converted", "done"]
    assert client.messages[0] == {
        "type": "ready",
        "max_bytes": MAX_BYTES,
        "max_seconds": 10.0,
        "hear": False,
    }
    assert client.sound == SOUND
    assert client.close == (1000, "")
    assert stage.uploads.objects[voice_id].data == DATA
    assert stage.uploads.metadata[voice_id] == LIVE
    assert stage.conversion.made == [(voice_id, DATA, "audio/webm")]
    assert (voice.status, voice.attempt) == (Status.DONE, 1)
    assert voice.input is not None
    assert (voice.input.bytes, voice.input.content_type, voice.input.seconds) == (
        len(DATA),
        "audio/webm",
        2.5,
    )
    told = client.messages[-1]
    expected = conversion_answer(voice)
    assert told["timings"] == expected["timings"]
    assert told["result"]["sha256"] == hashlib.sha256(SOUND).hexdigest()
    assert told["result"].keys() == expected["result"].keys()
    assert told["result"]["url_expires_at"].endswith("Z")


@in_virtual_time
async def test_done_is_told_before_the_recording_is_emptied(stage: LiveStage) -> None:
    stage.conversion.may_discard.clear()
    client = stage.speak(await stage.add())
    await asyncio.sleep(3 * protocol.HEARTBEAT_SECONDS)

    assert client.messages[-1]["type"] == "done", "nothing comes after it"
    assert not client.task.done()

    stage.conversion.may_discard.set()
    assert (await client.ended()).close == (1000, "")


@in_virtual_time
async def test_a_recording_that_cannot_be_emptied_does_not_change_the_answer(
    stage: LiveStage,
) -> None:
    stage.conversion.discard_error = StorageUnavailableError("down")
    voice_id = await stage.add()
    with log_book() as book:
        client = await stage.speak(voice_id).ended()

    assert client.types == ["ready", "converted", "done"]
    assert client.close == (1000, "")
    assert (await stage.voice(voice_id)).status is Status.DONE
    assert len(book.of("live_untidy")) == 1


@in_virtual_time
async def test_the_computing_waits_for_no_recording_and_the_sound_for_no_result_to_be_stored(
    stage: LiveStage,
) -> None:
    voice_id = await stage.add()
    goes_on = asyncio.Event()
    write = stage.uploads.write

    async def held_write(*arguments: Any, **named: Any) -> Any:
        await goes_on.wait()
        return await write(*arguments, **named)

    stage.uploads.write = held_write  # type: ignore[method-assign]
    stage.conversion.may_store.clear()
    client = stage.speak(voice_id)
    await settle()

    assert stage.conversion.made
    assert "converted" not in client.types, "a recording that is not stored has no result"

    goes_on.set()
    await settle()
    assert client.sound == SOUND, "the sound waits until it is stored"
    assert "done" not in client.types

    stage.conversion.may_store.set()
    assert (await client.ended()).types[-1] == "done"


@pytest.mark.parametrize(
    ("error", "code"), [(ERROR, ERROR.code), (RuntimeError("a bug"), ErrorCode.INTERNAL)], ids=str
)
@in_virtual_time
async def test_a_recording_that_cannot_be_converted_fails_the_voice(
    stage: LiveStage, error: Exception, code: ErrorCode
) -> None:
    stage.conversion.error = error
    client = await stage.speak(voice_id := await stage.add()).ended()

    voice = await stage.voice(voice_id)
    assert voice.status is Status.FAILED
    assert voice.error is not None
    assert voice.error.code is code
    told = {"type": "failed", "code": code.value, "message": voice.error.message}
    assert client.messages[-1] == told
    assert client.close == (1000, "")


@in_virtual_time
async def test_a_recording_for_a_withdrawn_character_fails_the_voice_unheard(
    stage: LiveStage,
) -> None:
    character = a_ready()
    await stage.own_characters.create(character, limits=MANY, by="somebody")
    voice_id = await stage.add(replace(a_waiting(), character=character.character_id))

    client = await stage.speak(voice_id).ended()

    assert client.types == ["ready", "failed"]
    assert client.messages[-1]["code"] == "unknown_character"
    assert client.sound == b""


@in_virtual_time
async def test_a_page_of_another_site_or_another_protocol_gets_no_connection(
    stage: LiveStage,
) -> None:
    refused = await stage.connect(origin="https://evil.example").ended()
    assert (refused.status, refused.sent) == (403, [])

    for origin in (SITE, "http://live.test"):
        assert (await stage.connect(origin=origin).ended()).status == 101
    assert (await stage.connect().ended()).status == 101, "programs send no origin"
    for subprotocol in ("", "voice-avatar.live.v2"):
        assert (await stage.connect(subprotocol=subprotocol).ended()).status == 400


@in_virtual_time
async def test_a_client_that_never_begins_or_never_ends_is_closed() -> None:
    stage, loop = LiveStage(max_messages=10_000), asyncio.get_running_loop()
    begin = loop.time()
    assert (await stage.connect().ended()).close == (1008, "too_slow")
    assert loop.time() - begin == pytest.approx(protocol.START_SECONDS)

    client = stage.start(await stage.add())
    begin = loop.time()
    while not client.task.done():
        client.send(b"x")
        await asyncio.sleep(1)
    assert client.close == (1008, "too_slow")
    assert loop.time() - begin == pytest.approx(LISTENING_SECONDS, abs=2)


@pytest.mark.parametrize("message", ["x", b"bytes before start", {"type": "cancel"}])
@in_virtual_time
async def test_a_first_message_that_is_no_start_is_refused(
    message: str | bytes | dict[str, Any],
) -> None:
    client = LiveStage().connect()
    client.send(message)
    assert (await client.ended()).close == (1007, "malformed")


@pytest.mark.parametrize(
    ("messages", "close"),
    [
        ([b"x"], (1008, "too_slow")),
        ([{"type": "start", "ticket": "t", "content_type": "audio/ogg"}], (1007, "malformed")),
        ([bytes(1000)] * (MAX_BYTES // 1000 + 1), (1009, "too_large")),
        ([b"x"] * 100, (1008, "too_many_messages")),
    ],
    ids=["falls silent", "starts twice", "sends too much", "sends too often"],
)
@in_virtual_time
async def test_a_client_that_does_not_keep_to_the_protocol_is_closed(
    stage: LiveStage, messages: list[Any], close: tuple[int, str]
) -> None:
    client = stage.start(await stage.add())
    for message in messages:
        client.send(message)

    assert (await client.ended()).close == close
    assert not stage.uploads.objects


@in_virtual_time
async def test_a_wrong_ticket_or_type_is_refused_before_anything_is_read(stage: LiveStage) -> None:
    stage.voices.is_out_of_reach = True
    for ticket in ("", stage.ticket(new_voice_id())[:-1]):
        client = stage.start(new_voice_id(), ticket=ticket)
        assert (await client.ended()).close == (1008, "ticket_refused")
    for content_type in ("text/html", "audio/webm\n", "audio/webm;" + "x" * 200):
        client = stage.start(new_voice_id(), content_type=content_type)
        assert (await client.ended()).close == (1008, "unsupported_content_type")


@in_virtual_time
async def test_a_ticket_says_for_which_voice_it_is(stage: LiveStage) -> None:
    mine, yours = await stage.add(), await stage.add()
    await stage.speak(mine, ticket=stage.ticket(yours)).ended()
    assert list(stage.uploads.objects) == [yours]
    assert (await stage.voice(mine)).status is Status.WAITING


@in_virtual_time
async def test_the_ticket_of_a_voice_that_has_its_recording_or_is_deleted_is_refused(
    stage: LiveStage,
) -> None:
    voice_id = await stage.add()
    await stage.speak(voice_id).ended()

    client = await stage.speak(voice_id, b"another recording").ended()
    assert client.close == (1008, "already_uploaded")
    assert stage.uploads.objects[voice_id].data == DATA
    client = await stage.speak(new_voice_id()).ended()
    assert client.close == (1008, "unknown_voice")
    assert list(stage.uploads.objects) == [voice_id]


@in_virtual_time
async def test_recordings_for_which_there_is_no_memory_are_refused() -> None:
    stage = LiveStage(max_held_bytes=1500)
    first = stage.start(await stage.add())
    first.send(bytes(1000))
    await settle()
    second = stage.start(await stage.add())
    second.send(bytes(1000))
    assert (await second.ended()).close == (1013, "busy")

    first.leave()
    await first.ended()
    third = stage.start(await stage.add())
    third.send(bytes(1000))
    third.send(an_end(bytes(1000)))
    assert (await third.ended()).types[-1] == "done"


@pytest.mark.parametrize("limits", [{"sockets": 2}, {"sockets_per_client": 2}])
@in_virtual_time
async def test_too_many_connections_are_refused(limits: dict[str, int]) -> None:
    stage = LiveStage(**limits)  # type: ignore[arg-type]
    held = [stage.start(await stage.add()) for _ in range(2)]
    await settle()
    assert (await stage.connect().ended()).close == (1013, "busy")

    held[0].leave()
    await held[0].ended()
    assert (await stage.speak(await stage.add()).ended()).types[-1] == "done"


@in_virtual_time
async def test_a_cancelled_or_broken_recording_is_stored_nowhere_and_can_come_again(
    stage: LiveStage,
) -> None:
    cancelled = stage.start(voice_id := await stage.add())
    cancelled.send(DATA)
    cancelled.send({"type": "cancel"})
    cancelled.answers_close = False
    async with asyncio.timeout(20):
        assert (await cancelled.ended()).close == (1000, "")
    broken = stage.start(voice_id)
    broken.send(DATA[:1000])
    broken.leave()
    await broken.ended()
    assert not stage.uploads.objects
    assert (await stage.voice(voice_id)).status is Status.WAITING

    assert (await stage.speak(voice_id).ended()).types[-1] == "done"
    assert stage.uploads.objects[voice_id].data == DATA


@in_virtual_time
async def test_a_client_that_leaves_after_the_end_or_reads_nothing_loses_only_its_answers(
    stage: LiveStage,
) -> None:
    gone = stage.speak(of_gone := await stage.add())
    gone.leave()
    silent = stage.speak(of_silent := await stage.add())
    silent.reads.clear()
    await gone.ended()
    await settle()

    assert (await stage.voice(of_gone)).status is Status.DONE
    assert (await stage.voice(of_silent)).status is Status.DONE
    await silent.ended()
    assert silent.sent == []


@in_virtual_time
async def test_a_client_that_waits_long_hears_from_the_server(stage: LiveStage) -> None:
    stage.conversion.may_make.clear()
    client = stage.speak(await stage.add())
    await asyncio.sleep(3 * protocol.HEARTBEAT_SECONDS + 1)
    told = [each for each in client.messages if each["type"] == "received"]
    assert len(told) == 3
    assert told[-1]["bytes"] == len(DATA)

    stage.conversion.may_make.set()
    assert (await client.ended()).types[-1] == "done"


@in_virtual_time
async def test_missing_bytes_are_noticed_and_stored_nowhere() -> None:
    for end in (an_end(DATA + b"x"), an_end(DATA) | {"bytes": 1}, an_end(DATA[:-1] + b"x")):
        stage = LiveStage()
        client = stage.start(voice_id := await stage.add())
        client.send(DATA)
        client.send(end)

        assert (await client.ended()).messages[-1] == retried("mismatch", stored=False)
        assert not stage.uploads.objects
        assert (await stage.voice(voice_id)).status is Status.WAITING


@in_virtual_time
async def test_if_no_store_or_bucket_answers_the_recording_is_to_be_uploaded(
    stage: LiveStage,
) -> None:
    voice_id = await stage.add()
    for broken in (stage.voices, stage.uploads):
        broken.is_out_of_reach = True
        client = await stage.speak(voice_id).ended()
        broken.is_out_of_reach = False

        assert client.messages[-1] == retried("unavailable", stored=False)
        assert client.sound == b""
        assert not stage.uploads.objects
        assert (await stage.voice(voice_id)).status is Status.WAITING


@in_virtual_time
async def test_if_the_store_stops_answering_a_stored_recording_is_left_to_its_event(
    stage: LiveStage,
) -> None:
    client = stage.start(voice_id := await stage.add())
    client.send(DATA)
    await settle()
    stage.voices.is_out_of_reach = True
    client.send(an_end(DATA))

    assert (await client.ended()).messages[-1] == retried("unavailable", stored=True)
    stage.voices.is_out_of_reach = False
    assert (await stage.voice(voice_id)).status is Status.WAITING
    assert stage.uploads.objects[voice_id].data == DATA


@pytest.mark.parametrize(
    "changes",
    [
        {"error": ResourceLimitError("memory")},
        {"error": MemoryError("no room")},
        {"store_error": StorageUnavailableError("down")},
    ],
    ids=str,
)
@in_virtual_time
async def test_after_any_other_error_the_voice_is_handed_back(
    stage: LiveStage, changes: dict[str, Exception]
) -> None:
    for name, error in changes.items():
        setattr(stage.conversion, name, error)
    client = await stage.speak(voice_id := await stage.add()).ended()

    assert client.messages[-1] == retried("unavailable", stored=True)
    snapshot = await stage.voices.read(voice_id)
    assert snapshot.voice.status is Status.CONVERTING
    assert not snapshot.voice.lease_remaining(snapshot.read_at)


@in_virtual_time
async def test_a_voice_deleted_meanwhile_is_converted_no_further(stage: LiveStage) -> None:
    stage.conversion.may_store.clear()
    client = stage.speak(voice_id := await stage.add())
    await settle()
    await stage.voices.delete(voice_id)
    stage.conversion.may_store.set()

    assert (await client.ended()).messages[-1] == retried("unavailable", stored=True)
    assert stage.conversion.results == set()


@in_virtual_time
async def test_a_connection_that_is_given_up_at_any_moment_leaves_no_error_behind(
    stage: LiveStage,
) -> None:
    with no_lost_errors():
        for moment in range(40):
            client = stage.start(voice_id := await stage.add())
            client.send(DATA)
            await settle()
            await stage.voices.delete(voice_id)
            client.send(an_end(DATA))
            for _ in range(moment):
                await asyncio.sleep(0)
            client.task.cancel()
            await asyncio.gather(client.task, return_exceptions=True)
            await settle()


@in_virtual_time
async def test_the_later_of_two_connections_is_told_what_the_earlier_one_made(
    stage: LiveStage,
) -> None:
    voice_id = await stage.add()
    first, second = (stage.speak(voice_id) for _ in range(2))
    await first.ended()

    assert (await second.ended()).messages[-1] == first.messages[-1]
    assert second.types == ["ready", "done"]


@in_virtual_time
async def test_a_recording_that_was_uploaded_meanwhile_is_converted_once_and_another_wins(
    stage: LiveStage,
) -> None:
    same, other = await stage.add(), await stage.add()
    generation = stage.uploads.put(same, DATA)
    stage.uploads.put(other, b"another recording")

    assert (await stage.speak(same).ended()).types[-1] == "done"
    found = await stage.voice(same)
    assert found.input is not None
    assert (found.input.generation, found.attempt) == (generation, 1)
    client = await stage.speak(other).ended()
    assert client.messages[-1] == retried("already_uploaded", stored=True)
    assert (await stage.voice(other)).status is Status.WAITING


@pytest.mark.parametrize("uploaded_after", [0, 40, 400])
@in_virtual_time
async def test_of_many_connections_and_an_upload_at_once_one_recording_is_stored_and_converted(
    uploaded_after: int,
) -> None:
    stage = LiveStage(max_held_bytes=1 << 20)
    voice_id = await stage.add()
    clients = [stage.speak(voice_id, bytes([number]) * 5_000) for number in range(8)]
    for _ in range(uploaded_after):
        await asyncio.sleep(0)
    with suppress(ObjectExistsError):
        await stage.uploads.write(voice_id, io.BytesIO(DATA), content_type="audio/webm")
    stored = None
    for client in clients:
        await client.ended()
        stored = stored or stage.uploads.objects[voice_id]

    assert stage.uploads.objects[voice_id] == stored
    voice = await stage.voice(voice_id)
    won = [each for each in clients if each.types[-1:] == ["done"]]
    assert len([each for each in clients if each.sound]) <= 1
    assert len(stage.conversion.results) == (voice.status is Status.DONE)
    assert voice.attempt == (voice.status is Status.DONE)
    # Who lost is told to wait for the document, or that the voice has its recording.
    for client in clients:
        if client not in won and client.messages[-1]["type"] == "retry":
            assert client.messages[-1]["stored"]
        elif client not in won:
            assert client.close == (1008, "already_uploaded")


@pytest.mark.parametrize(
    "step",
    [
        lambda voice, now: voices_of.queue(voice, now, an_upload(voice.voice_id)),
        lambda voice, now: voices_of.lease(voice, now, an_upload(voice.voice_id)),
    ],
)
@in_virtual_time
async def test_what_happened_to_the_voice_since_the_start_is_seen_at_the_end(
    stage: LiveStage, step: Callable[[Voice, Any], Voice]
) -> None:
    client = stage.start(voice_id := await stage.add())
    client.send(DATA)
    await settle()
    await change(stage.voices, voice_id, step)
    client.send(an_end(DATA))
    last = (await client.ended()).messages[-1]

    status = (await stage.voice(voice_id)).status
    if status is Status.CONVERTING:
        assert last == retried("unavailable", stored=True)
    else:
        assert (last["type"], status) == ("done", Status.DONE)


@in_virtual_time
async def test_a_lease_counts_from_the_moment_at_which_it_is_taken(stage: LiveStage) -> None:
    stage.conversion.may_make.clear()
    client = stage.start(voice_id := await stage.add())
    for _ in range(5):
        client.send(b"x")
        await asyncio.sleep(4)
    client.send(an_end(b"x" * 5))
    await settle()

    snapshot = await stage.voices.read(voice_id)
    assert snapshot.voice.lease_remaining(snapshot.read_at) >= voices_of.LEASE
    assert snapshot.voice.updated_at == snapshot.read_at
    stage.conversion.may_make.set()
    assert (await client.ended()).types[-1] == "done"


@in_virtual_time
async def test_recordings_that_still_come_are_told_to_go_elsewhere(stage: LiveStage) -> None:
    client = stage.start(voice_id := await stage.add())
    client.send(DATA)
    await settle()
    await stage.drain()

    assert (await client.ended()).close == (1012, "restarting")
    assert (await stage.speak(voice_id).ended()).close == (1012, "restarting")
    assert not stage.uploads.objects


@in_virtual_time
async def test_a_recording_that_is_complete_is_converted_before_the_end(stage: LiveStage) -> None:
    stage.conversion.may_make.clear()
    client = stage.speak(await stage.add())
    await settle()
    draining = asyncio.create_task(stage.drain())
    await asyncio.sleep(1)
    stage.conversion.may_make.set()
    await draining

    assert (await client.ended()).types[-1] == "done"


@in_virtual_time
async def test_a_conversion_that_takes_too_long_is_handed_back(stage: LiveStage) -> None:
    stage.conversion.may_make.clear()
    client = stage.speak(voice_id := await stage.add())
    await settle()
    await stage.drain()

    assert (await client.ended()).messages[-1] == retried("restarting", stored=True)
    snapshot = await stage.voices.read(voice_id)
    assert snapshot.voice.status is Status.CONVERTING
    assert not snapshot.voice.lease_remaining(snapshot.read_at)


class FakeStream:
    def __init__(self, send: Callable[[str | bytes], bool] | None) -> None:
        self._send = send
        self.fed = bytearray()
        self.ends: list[bytes] = []
        self.is_closed = False
        self.ahead = EarlyPieces()

    def feed(self, piece: bytes) -> None:
        self.fed.extend(piece)
        if self._send is not None:
            self._send(b"heard")

    def end(self) -> None:
        self.ends.append(bytes(self.fed))

    def close(self) -> None:
        self.is_closed = True

    async def character(self) -> None:
        assert not self.is_closed


class FakeStreams:
    def __init__(self) -> None:
        self.begun: list[FakeStream] = []

    def open(self, voice: Voice, send: Callable[[str | bytes], bool] | None) -> FakeStream:
        assert voice.voice_id
        self.begun.append(FakeStream(send))
        return self.begun[-1]


async def send_slowly(client: Client) -> None:
    for begin in range(0, len(DATA), 1000):
        client.send(DATA[begin : begin + 1000])
        await settle()


@in_virtual_time
async def test_who_listens_gets_every_byte_and_ends_before_the_result() -> None:
    streams = FakeStreams()
    stage = LiveStage(streams=cast("RecordingStreams", streams))
    client = stage.start(await stage.add(), hear=True)
    await send_slowly(client)
    client.send(an_end(DATA))
    await client.ended()

    assert client.messages[0]["hear"] is True
    (stream,) = streams.begun
    assert stream.ends == [DATA]
    assert client.sound.startswith(b"heard")
    assert client.sound.endswith(SOUND)
    assert cast("FakeStream", stage.conversion.early) is stream
    assert stream.is_closed


@pytest.mark.parametrize("last", [{"type": "cancel"}, an_end(b"something else")])
@in_virtual_time
async def test_nobody_listens_to_a_recording_that_is_not_complete(last: dict[str, Any]) -> None:
    streams = FakeStreams()
    stage = LiveStage(streams=cast("RecordingStreams", streams))
    client = stage.start(await stage.add())
    await send_slowly(client)
    client.send(last)
    await client.ended()

    assert streams.begun[0].is_closed
    assert stage.conversion.made == []


START = {"type": "start", "ticket": "t", "content_type": "audio/webm;codecs=opus"}
END = {"type": "end", "bytes": 3, "sha256": "0a" * 32}


@pytest.mark.parametrize(
    "message",
    [
        "",
        "[" * 2000,
        json.dumps({"type": ["start"]}),
        json.dumps({"type": "start"}),
        json.dumps(START | {"ticket": 1}),
        json.dumps(START | {"hear": 1}),
        json.dumps(START | {"padding": "x" * 2048}),
        json.dumps(END | {"bytes": -1}),
        json.dumps(END | {"bytes": True}),
        json.dumps(END | {"sha256": "0A" * 32}),
        json.dumps(END | {"sha256": "0a" * 32 + "\n"}),
    ],
)
def test_what_is_no_message_of_the_protocol_is_refused(message: str) -> None:
    with pytest.raises(MalformedError):
        protocol.parse(message)


def test_a_result_comes_in_pieces_that_every_client_takes() -> None:
    data = bytes(range(256)) * 2500
    description, *pieces = protocol.converted(data, "audio/wav")

    assert json.loads(description) == {
        "type": "converted",
        "content_type": "audio/wav",
        "bytes": len(data),
    }
    assert b"".join(map(bytes, pieces)) == data  # type: ignore[arg-type]
    assert max(map(len, pieces)) == protocol.LARGEST_PIECE
