"""Answers that the emulator cannot be made to give, from a fake stream."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from google.api_core import exceptions as google_errors
from google.cloud.firestore_v1 import _helpers as firestore_values
from google.cloud.firestore_v1.types import (
    Document,
    DocumentChange,
    DocumentDelete,
    DocumentRemove,
    ExistenceFilter,
    ListenRequest,
    ListenResponse,
    TargetChange,
)
from google.rpc.status_pb2 import Status as RpcStatus

from shared.google.listener import (
    CHECK_SECONDS,
    FIRST_CHECK_SECONDS,
    RECONNECTIONS,
    SILENCE_SECONDS,
    DocumentListener,
)
from shared.voices.store import (
    StoreUnavailableError,
    UnreadableVoiceError,
    document_path,
    to_document,
)
from tests.support.virtual_time import in_virtual_time, settle
from tests.support.voices import a_done, a_queued, a_waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.google.firestore import RenewableClient
    from shared.voices.voice import Voice

DATABASE = "projects/p/databases/(default)"


CLOSED = google_errors.Cancelled("closed")
"""Sent by the test to close a connection cleanly."""


class FakeListenStream:
    """One connection: its requests, and the test's answers."""

    def __init__(self, requests: AsyncIterator[ListenRequest]) -> None:
        self.asked: list[ListenRequest] = []
        self.is_cancelled = False
        self._answers: asyncio.Queue[ListenResponse | Exception | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read(requests))

    async def _read(self, requests: AsyncIterator[ListenRequest]) -> None:
        async for request in requests:
            self.asked.append(request)

    def answer(self, *answers: ListenResponse | Exception | None) -> None:
        """Send an answer; an exception breaks the connection, None is a malformed message."""
        for answer in answers:
            self._answers.put_nowait(answer)

    def target_of(self, voice: Voice) -> int:
        ends = [r for r in self.asked if str(r.add_target.documents).find(voice.voice_id) >= 0]
        return int(ends[-1].add_target.target_id)

    def cancel(self) -> None:
        self.is_cancelled = True

    async def __aiter__(self) -> AsyncIterator[ListenResponse | None]:
        try:
            while (answer := await self._answers.get()) is not CLOSED:
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            self._reading.cancel()


class FakeFirestore:
    """The part of Firestore's client that the listener uses; `refusals` come first."""

    _database_string = DATABASE
    _rpc_metadata = ()

    def __init__(self) -> None:
        self.streams: list[FakeListenStream] = []
        self.refusals: list[Exception] = []
        self.attempts = 0
        self.stored: dict[str, Voice | None] = {}
        self.reads: list[str] = []
        self.is_deaf = False
        self.renewals = 0
        self._connected = asyncio.Event()

    async def until_connected(self, times: int) -> None:
        while len(self.streams) < times:
            self._connected.clear()
            await self._connected.wait()

    def renew(self) -> None:
        self.renewals += 1

    def document(self, path: str) -> str:
        return path.rpartition("/")[2]

    async def get_all(self, references: list[str], *, retry: Any) -> AsyncIterator[Any]:
        assert retry is None
        self.reads += references
        if self.is_deaf:
            await asyncio.Event().wait()
        for name in references:
            voice = self.stored.get(name)
            fields = None if voice is None else to_document(voice)
            yield SimpleNamespace(id=name, to_dict=lambda fields=fields: fields)

    @property
    def _firestore_api(self) -> FakeFirestore:
        return self

    async def listen(
        self, *, requests: AsyncIterator[ListenRequest], metadata: Any, retry: Any
    ) -> FakeListenStream:
        assert (metadata, retry) == ((), None)
        self.attempts += 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.streams.append(FakeListenStream(requests))
        self._connected.set()
        return self.streams[-1]


def listening(client: FakeFirestore, targets_per_stream: int = 100) -> DocumentListener:
    return DocumentListener(cast("RenewableClient", client), targets_per_stream=targets_per_stream)


def changed(voice: Voice, *target_ids: int) -> ListenResponse:
    fields = firestore_values.encode_dict(to_document(voice))
    name = f"{DATABASE}/documents/{document_path(voice.voice_id)}"
    change = DocumentChange(document=Document(name=name, fields=fields), target_ids=target_ids)
    return ListenResponse(document_change=change)


def told(kind: str, *target_ids: int, code: int = 0) -> ListenResponse:
    change = TargetChange(
        target_change_type=getattr(TargetChange.TargetChangeType, kind),
        target_ids=target_ids,
        cause=RpcStatus(code=code, message="too many targets"),
    )
    return ListenResponse(target_change=change)


@asynccontextmanager
async def watched(
    listener: DocumentListener, client: FakeFirestore, voice: Voice
) -> AsyncIterator[tuple[AsyncIterator[Voice | None], FakeListenStream]]:
    """Watch a voice on the first stream, which has sent it."""
    async with listener.watch(voice.voice_id) as states:
        await settle()
        stream = client.streams[0]
        stream.answer(changed(voice, stream.target_of(voice)))
        assert await anext(states) == voice
        yield states, stream


@in_virtual_time
async def test_a_document_deleted_or_removed_or_filtered_away_is_gone() -> None:
    client, voice = FakeFirestore(), a_waiting()
    async with listening(client).watch(voice.voice_id) as states:
        await settle()
        stream = client.streams[0]
        target = stream.target_of(voice)
        for gone in (
            ListenResponse(document_delete=DocumentDelete(removed_target_ids=[target])),
            ListenResponse(document_remove=DocumentRemove(removed_target_ids=[target])),
            ListenResponse(filter=ExistenceFilter(target_id=target, count=0)),
        ):
            stream.answer(changed(voice, target))
            assert await anext(states) == voice
            stream.answer(gone)
            assert await anext(states) is None


@in_virtual_time
async def test_an_existing_document_is_not_reported_as_deleted() -> None:
    client, voice, queued = FakeFirestore(), a_waiting(), a_queued()
    async with listening(client).watch(voice.voice_id) as states:
        await settle()
        stream = client.streams[0]
        target = stream.target_of(voice)
        stream.answer(
            told("ADD", target),
            changed(voice, target),
            told("CURRENT", target),
            ListenResponse(filter=ExistenceFilter(target_id=target, count=1)),
            told("NO_CHANGE"),
            ListenResponse(),
        )
        assert await anext(states) == voice
        stream.answer(changed(queued, target))
        assert await anext(states) == queued


@in_virtual_time
async def test_after_a_reset_a_document_that_is_not_sent_again_is_gone() -> None:
    client, voice = FakeFirestore(), a_waiting()
    async with watched(listening(client), client, voice) as (states, stream):
        stream.answer(told("CURRENT"))
        stream.answer(told("RESET"), told("CURRENT"))
        assert await anext(states) is None


@in_virtual_time
async def test_words_about_a_target_that_was_left_are_ignored() -> None:
    client, voice, other = FakeFirestore(), a_waiting(), a_waiting()
    listener = listening(client)
    async with listener.watch(voice.voice_id) as states:
        async with listener.watch(other.voice_id):
            await settle()
            stream = client.streams[0]
            left = stream.target_of(other)
        await settle()
        assert stream.asked[-1].remove_target == left
        stream.answer(changed(other, left), told("REMOVE", left), told("CURRENT", left))
        stream.answer(changed(voice, stream.target_of(voice)))
        assert await anext(states) == voice


@in_virtual_time
async def test_one_unreadable_document_does_not_end_the_stream_of_the_others() -> None:
    client, voice, broken = FakeFirestore(), a_waiting(), a_waiting()
    listener = listening(client)
    async with (
        listener.watch(broken.voice_id) as unreadable,
        listener.watch(voice.voice_id) as fine,
    ):
        await settle()
        stream = client.streams[0]
        name = f"{DATABASE}/documents/{document_path(broken.voice_id)}"
        change = DocumentChange(
            document=Document(name=name, fields=firestore_values.encode_dict({"status": "lost"})),
            target_ids=[stream.target_of(broken)],
        )
        stream.answer(ListenResponse(document_change=change))
        stream.answer(changed(voice, stream.target_of(voice)))
        with pytest.raises(UnreadableVoiceError, match=broken.voice_id):
            await anext(unreadable)
        assert await anext(fine) == voice
    assert client.attempts == 1


@in_virtual_time
async def test_closing_the_listener_ends_every_watch() -> None:
    listener = listening(FakeFirestore())
    async with listener.watch(a_waiting().voice_id) as states:
        await listener.aclose()
        with pytest.raises(StoreUnavailableError, match="was closed"):
            await anext(states)
    assert listener.stream_count == 0


@in_virtual_time
async def test_a_refused_target_fails_its_waiters_and_a_later_one_asks_anew() -> None:
    client, voice, other = FakeFirestore(), a_waiting(), a_waiting()
    listener = listening(client)
    async with AsyncExitStack() as stack:
        refused = await stack.enter_async_context(listener.watch(voice.voice_id))
        fine = await stack.enter_async_context(listener.watch(other.voice_id))
        await settle()
        stream = client.streams[0]
        first = stream.target_of(voice)
        stream.answer(told("REMOVE", first, code=8), changed(other, stream.target_of(other)))
        with pytest.raises(StoreUnavailableError, match="refused to listen: too many targets"):
            await anext(refused)
        assert await anext(fine) == other

        again = await stack.enter_async_context(listener.watch(voice.voice_id))
        await settle()
        assert stream.target_of(voice) != first
        stream.answer(changed(voice, stream.target_of(voice)))
        assert await anext(again) == voice


@pytest.mark.parametrize(
    "ending",
    [
        CLOSED,
        google_errors.ServiceUnavailable("cut"),
        RuntimeError("the transport is strange"),
        None,
    ],
    ids=["closed", "broken", "surprise", "rubbish"],
)
def test_after_a_broken_connection_every_document_is_requested_again(
    ending: Exception | None,
) -> None:
    @in_virtual_time
    async def run() -> None:
        client, voice, other = FakeFirestore(), a_waiting(), a_waiting()
        listener = listening(client)
        async with (
            watched(listener, client, voice) as (states, first),
            listener.watch(other.voice_id),
        ):
            client.refusals = [google_errors.ServiceUnavailable("not yet")]
            first.answer(ending)
            await client.until_connected(2)
            await settle()
            second, done = client.streams[1], a_done()
            assert first.is_cancelled
            assert second.target_of(other)
            second.answer(changed(done, second.target_of(voice)))
            assert await anext(states) == done
        assert (client.attempts, listener.stream_count) == (3, 0)

    run()


@in_virtual_time
async def test_permanent_connection_failures_end_every_watch_with_an_error() -> None:
    client, voice = FakeFirestore(), a_waiting()
    client.refusals = [google_errors.ServiceUnavailable("down")] * (RECONNECTIONS + 1)
    listener = listening(client)

    async with listener.watch(voice.voice_id) as states:
        with pytest.raises(StoreUnavailableError, match="cannot be listened to: 503 down"):
            await anext(states)
        assert (client.attempts, len(client.refusals)) == (RECONNECTIONS + 1, 0)

        async with watched(listener, client, voice):
            await asyncio.sleep(0)
    assert listener.stream_count == 0


@in_virtual_time
async def test_a_connection_that_worked_for_a_while_may_break_any_number_of_times() -> None:
    client, voice = FakeFirestore(), a_waiting()
    async with listening(client).watch(voice.voice_id) as states:
        for number in range(3 * RECONNECTIONS):
            await client.until_connected(number + 1)
            await settle()
            stream = client.streams[number]
            stream.answer(changed(voice, stream.target_of(voice)))
            assert await anext(states) == voice
            stream.answer(google_errors.ServiceUnavailable("cut"))


@in_virtual_time
async def test_a_stream_that_does_not_answer_is_replaced_and_the_waiters_get_their_state() -> None:
    client, voice, other, done = FakeFirestore(), a_waiting(), a_waiting(), a_done()
    listener = listening(client)
    async with (
        watched(listener, client, voice) as (states, dead),
        # From here on the stream is dead; only a new watcher can notice.
        listener.watch(other.voice_id) as others,
    ):
        await client.until_connected(2)
        await settle()
        second = client.streams[1]
        second.answer(changed(done, second.target_of(voice)))
        second.answer(changed(other, second.target_of(other)))
        assert (await anext(states), await anext(others)) == (done, other)
    assert dead.is_cancelled
    assert client.attempts == 2


@in_virtual_time
async def test_a_silent_stream_is_replaced_even_while_watchers_are_added() -> None:
    client, loop = FakeFirestore(), asyncio.get_running_loop()
    listener = listening(client)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(listener.watch(a_waiting().voice_id))
        await settle()
        while len(client.streams) < 2 and loop.time() < 10 * SILENCE_SECONDS:
            await asyncio.sleep(SILENCE_SECONDS / 2)
            await stack.enter_async_context(listener.watch(a_waiting().voice_id))
        assert loop.time() < 2 * SILENCE_SECONDS
        assert client.streams[0].is_cancelled


@in_virtual_time
async def test_a_stream_may_be_silent_for_an_hour_when_nothing_is_due() -> None:
    client, voice = FakeFirestore(), a_waiting()
    async with watched(listening(client), client, voice) as (states, stream):
        stream.answer(told("CURRENT"))
        client.stored[voice.voice_id] = voice
        await asyncio.sleep(3600)
        stream.answer(changed(voice, stream.target_of(voice)))
        assert await anext(states) == voice
    assert client.attempts == 1


@in_virtual_time
async def test_a_firestore_that_never_answers_ends_every_watch_with_an_error() -> None:
    client = FakeFirestore()
    async with listening(client).watch(a_waiting().voice_id) as states:
        with pytest.raises(StoreUnavailableError, match="did not answer on the stream"):
            await anext(states)
    assert client.attempts == RECONNECTIONS + 1


@pytest.mark.parametrize("kind", [google_errors.PermissionDenied, google_errors.NotFound])
def test_a_permanent_error_is_reported_at_once(kind: type[Exception]) -> None:
    @in_virtual_time
    async def run() -> None:
        client = FakeFirestore()
        client.refusals = [kind("no")]
        async with listening(client).watch(a_waiting().voice_id) as states:
            with pytest.raises(StoreUnavailableError, match="no"):
                await anext(states)
        assert client.attempts == 1

    run()


@in_virtual_time
async def test_a_full_stream_is_joined_by_another() -> None:
    client = FakeFirestore()
    listener = listening(client, targets_per_stream=2)
    async with AsyncExitStack() as stack:
        for _ in range(5):
            await stack.enter_async_context(listener.watch(a_waiting().voice_id))
        assert listener.stream_count == 3
    assert listener.stream_count == 0


@in_virtual_time
async def test_a_change_that_a_silent_stream_does_not_tell_is_found_and_told() -> None:
    client, voice = FakeFirestore(), a_queued()
    async with watched(listening(client), client, voice) as (states, _):
        done = replace(a_done(), voice_id=voice.voice_id)
        client.stored[voice.voice_id] = done

        async with asyncio.timeout(FIRST_CHECK_SECONDS + 1):
            assert await anext(states) == done
        await client.until_connected(2)

    assert client.streams[0].is_cancelled


@in_virtual_time
async def test_a_silent_document_is_read_at_most_twice_in_a_minute_and_a_final_one_never() -> None:
    client, voice, final = FakeFirestore(), a_queued(), a_done()
    client.stored[voice.voice_id] = voice
    listener = listening(client)
    async with watched(listener, client, voice), watched(listener, client, final):
        await asyncio.sleep(60)
        assert client.reads == [voice.voice_id] * 2
        await asyncio.sleep(600)

    assert len(client.reads) <= 13
    assert len(client.streams) == 1


@in_virtual_time
async def test_a_connection_on_which_nothing_is_answered_is_opened_again() -> None:
    client, voice = FakeFirestore(), a_queued()
    client.is_deaf = True
    async with watched(listening(client), client, voice):
        async with asyncio.timeout(FIRST_CHECK_SECONDS + CHECK_SECONDS + 1):
            await client.until_connected(2)

    assert client.renewals == 1
