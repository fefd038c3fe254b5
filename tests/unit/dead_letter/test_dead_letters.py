from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from functions.dead_letter.dead_letters import DeadLetterHandler
from infra.local.cloud.memory import MemoryVoices
from shared.voices.messages import ConversionMessage, PushMessage, parse_conversion_message
from shared.voices.objects import StorageUnavailableError
from shared.voices.store import UnreadableVoiceError
from shared.voices.voice import (
    CONVERTED_WITHIN,
    MOST_ATTEMPTS,
    ErrorCode,
    LeaseHeldError,
    Status,
    new_voice_id,
)
from tests.support.buckets import MemoryBucket
from tests.support.logs import LogBook, log_book, logged_as
from tests.support.messages import RecordingPublisher, conversion_message, upload_notification
from tests.support.voices import (
    CLIENT,
    EVERY_STATE,
    NOW,
    SECOND,
    a_converting,
    a_done,
    a_failed,
    a_queued,
    a_waiting,
    an_upload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shared.voices.store import Snapshot
    from shared.voices.voice import Voice


def about_upload(voice: Voice) -> PushMessage:
    return upload_notification(an_upload(voice.voice_id))


def about_conversion(voice: Voice) -> PushMessage:
    return conversion_message(voice.voice_id)


@pytest.fixture
def book() -> Iterator[LogBook]:
    with log_book() as kept:
        yield kept


@pytest.fixture
def uploads() -> MemoryBucket:
    return MemoryBucket("uploads")


@pytest.fixture
def results() -> MemoryBucket:
    return MemoryBucket("results")


@pytest.fixture
def topic() -> RecordingPublisher:
    return RecordingPublisher()


@pytest.fixture
def handler(
    voices: MemoryVoices, uploads: MemoryBucket, results: MemoryBucket, topic: RecordingPublisher
) -> DeadLetterHandler:
    return DeadLetterHandler(voices, uploads, results, topic)


@pytest.fixture
def voices() -> MemoryVoices:
    """Return a store whose voices are too old to be put back."""
    return MemoryVoices(now=lambda: NOW + CONVERTED_WITHIN)


@pytest.fixture
def young() -> MemoryVoices:
    """Return a store whose voices are as old as they may be to be put back."""
    return MemoryVoices(now=lambda: NOW + CONVERTED_WITHIN - SECOND)


@pytest.mark.parametrize("about", [about_upload, about_conversion])
@pytest.mark.parametrize("state", ["waiting", "queued", "converting"])
async def test_the_voice_of_a_dead_letter_is_failed(
    *,
    voices: MemoryVoices,
    handler: DeadLetterHandler,
    book: LogBook,
    about: Callable[[Voice], PushMessage],
    state: str,
) -> None:
    voice = EVERY_STATE[state]()
    await voices.create(voice)

    await handler.handle(about(voice))

    failed = (await voices.read(voice.voice_id)).voice
    assert (failed.status, failed.lease_expires_at) == (Status.FAILED, None)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.ATTEMPTS_EXHAUSTED
    assert "record again" in failed.error.message
    assert [entry["voice"] for entry in book.of("dead_lettered")] == [logged_as(voice.voice_id)]
    assert [entry["severity"] for entry in book.of("dead_lettered")] == ["ERROR"]


@pytest.mark.parametrize("about", [about_upload, about_conversion])
async def test_a_dead_letter_that_comes_twice_changes_nothing_more(
    voices: MemoryVoices,
    handler: DeadLetterHandler,
    book: LogBook,
    about: Callable[[Voice], PushMessage],
) -> None:
    voice = a_queued()
    await voices.create(voice)

    await handler.handle(about(voice))
    first = await voices.read(voice.voice_id)
    await handler.handle(about(voice))

    assert await voices.read(voice.voice_id) == first
    assert len(book.of("duplicate")) == 1


@pytest.mark.parametrize("state", ["done", "failed"])
async def test_a_voice_that_is_over_keeps_its_end(
    voices: MemoryVoices, handler: DeadLetterHandler, state: str
) -> None:
    voice = EVERY_STATE[state]()
    await voices.create(voice)

    await handler.handle(about_conversion(voice))

    assert (await voices.read(voice.voice_id)).voice == voice


@pytest.mark.parametrize("about", [about_upload, about_conversion])
@pytest.mark.parametrize("state", ["waiting", "queued", "converting"])
async def test_a_young_voice_that_only_lacked_room_is_put_back_with_its_own_recording(
    *,
    young: MemoryVoices,
    results: MemoryBucket,
    topic: RecordingPublisher,
    book: LogBook,
    about: Callable[[Voice], PushMessage],
    state: str,
) -> None:
    voice = EVERY_STATE[state]()
    await young.create(voice)
    put_results(results, voice)
    there = set(results.objects)

    await DeadLetterHandler(young, MemoryBucket("uploads"), results, topic).handle(about(voice))

    ((data, attributes),) = topic.published
    message = parse_conversion_message(PushMessage(data))
    upload = an_upload(voice.voice_id)
    assert message == ConversionMessage(voice.voice_id, upload, CLIENT)
    assert attributes["voice_id"] == voice.voice_id
    kept = (await young.read(voice.voice_id)).voice
    assert (kept.status.is_final, kept.updated_at) == (False, NOW + CONVERTED_WITHIN - SECOND)
    assert set(results.objects) == there
    assert (len(book.of("delayed")), book.of("dead_lettered")) == (1, [])


async def test_a_voice_that_is_put_back_keeps_the_time_of_its_upload(
    young: MemoryVoices, results: MemoryBucket, topic: RecordingPublisher
) -> None:
    handler = DeadLetterHandler(young, MemoryBucket("uploads"), results, topic)
    for voice in (first := a_queued(), second := a_queued()):
        await young.create(voice)

    await handler.handle(about_upload(first))
    await handler.handle(conversion_message(second.voice_id, uploaded_at="2026-03-04T05:00:00Z"))

    times = [attributes["uploaded_at"] for _, attributes in topic.published]
    assert times == ["2026-03-04T05:06:07.123456Z", "2026-03-04T05:00:00Z"]


async def test_a_young_voice_whose_attempts_are_used_up_is_failed(
    young: MemoryVoices, results: MemoryBucket, topic: RecordingPublisher
) -> None:
    voice = replace(a_converting(), attempt=MOST_ATTEMPTS)
    await young.create(voice)

    await DeadLetterHandler(young, MemoryBucket("uploads"), results, topic).handle(
        about_conversion(voice)
    )

    assert (await young.read(voice.voice_id)).voice.status is Status.FAILED
    assert topic.published == []


@pytest.mark.parametrize("state", ["done", "failed"])
async def test_a_young_voice_that_is_over_is_not_put_back(
    young: MemoryVoices, results: MemoryBucket, topic: RecordingPublisher, state: str
) -> None:
    voice = EVERY_STATE[state]()
    await young.create(voice)

    await DeadLetterHandler(young, MemoryBucket("uploads"), results, topic).handle(
        about_conversion(voice)
    )

    assert (topic.published, (await young.read(voice.voice_id)).voice) == ([], voice)


async def test_while_a_worker_has_the_voice_the_dead_letter_comes_again(
    results: MemoryBucket,
) -> None:
    voices, voice = MemoryVoices(now=lambda: NOW + SECOND), a_converting()
    await voices.create(voice)
    results.put(f"{voice.voice_id}/1.wav", b"sound")
    topic = RecordingPublisher()

    with pytest.raises(LeaseHeldError):
        await DeadLetterHandler(voices, MemoryBucket("uploads"), results, topic).handle(
            about_conversion(voice)
        )

    assert topic.published == []

    assert (await voices.read(voice.voice_id)).voice == voice
    assert results.objects.keys() == {f"{voice.voice_id}/1.wav"}


async def test_a_dead_letter_of_a_deleted_voice_is_over(
    handler: DeadLetterHandler, book: LogBook
) -> None:
    await handler.handle(about_conversion(a_waiting()))

    assert (book.of("dead_lettered"), len(book.of("duplicate"))) == ([], 1)


@pytest.mark.parametrize(
    "message",
    [
        PushMessage(b""),
        PushMessage(b"garbage"),
        PushMessage(b"{}"),
        upload_notification(an_upload(new_voice_id(), object="stray")),
    ],
)
async def test_a_dead_letter_that_names_no_voice_is_seen_all_the_same(
    handler: DeadLetterHandler, book: LogBook, message: PushMessage
) -> None:
    await handler.handle(message)

    (entry,) = book.of("dead_lettered")
    assert entry["message"] == "dead letter that names no voice"


def put_results(results: MemoryBucket, voice: Voice) -> str:
    """Store the results of two attempts at a voice and of one at another; return the other's."""
    for number in (1, 2):
        results.put(f"{voice.voice_id}/{number}.wav", b"sound")
    other = f"{new_voice_id()}/1.wav"
    results.put(other, b"sound")
    return other


@pytest.mark.parametrize("make", [a_converting, a_failed])
async def test_the_results_of_all_attempts_are_deleted_with_the_voice(
    voices: MemoryVoices,
    handler: DeadLetterHandler,
    results: MemoryBucket,
    make: Callable[[], Voice],
) -> None:
    # An earlier delivery of the same dead letter may have left the voice failed.
    voice = make()
    await voices.create(voice)
    other = put_results(results, voice)

    await handler.handle(about_conversion(voice))

    assert results.objects.keys() == {other}


async def test_the_recording_of_a_voice_that_is_given_up_is_emptied(
    voices: MemoryVoices, handler: DeadLetterHandler, uploads: MemoryBucket
) -> None:
    voice = a_converting()
    await voices.create(voice)
    generation = uploads.put(voice.voice_id, b"recording")
    upload = an_upload(voice.voice_id, generation=generation)

    await handler.handle(upload_notification(upload))

    assert uploads.objects[voice.voice_id].data == b""


async def test_the_last_result_of_a_deleted_voice_is_deleted(
    handler: DeadLetterHandler, results: MemoryBucket
) -> None:
    voice = a_converting()
    other = put_results(results, voice)

    await handler.handle(about_conversion(voice))

    assert results.objects.keys() == {other}


async def test_the_result_of_a_done_voice_is_kept(
    voices: MemoryVoices, handler: DeadLetterHandler, results: MemoryBucket
) -> None:
    voice = a_done()
    await voices.create(voice)
    other = put_results(results, voice)
    assert voice.result is not None

    await handler.handle(about_conversion(voice))

    assert results.objects.keys() == {other, voice.result.object}


async def test_an_unreachable_bucket_lets_the_dead_letter_be_redelivered(
    voices: MemoryVoices, handler: DeadLetterHandler, results: MemoryBucket
) -> None:
    voice = a_converting()
    await voices.create(voice)
    other = put_results(results, voice)
    results.is_out_of_reach = True

    with pytest.raises(StorageUnavailableError):
        await handler.handle(about_conversion(voice))
    results.is_out_of_reach = False
    await handler.handle(about_conversion(voice))

    assert results.objects.keys() == {other}


class DamagedVoices(MemoryVoices):
    """Holds a document that is no voice."""

    async def read(self, voice_id: str) -> Snapshot:
        raise UnreadableVoiceError(voice_id, KeyError("options"))


async def test_a_document_that_cannot_be_read_is_named_and_nothing_is_deleted(
    results: MemoryBucket, book: LogBook
) -> None:
    voice = a_converting()
    put_results(results, voice)
    there = set(results.objects)

    await DeadLetterHandler(
        DamagedVoices(), MemoryBucket("uploads"), results, RecordingPublisher()
    ).handle(about_conversion(voice))

    (entry,) = book.of("unreadable_voice")
    assert entry["voice"] == logged_as(voice.voice_id)
    assert results.objects.keys() == there
