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
    an_upload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from shared.voices.store import Snapshot
    from shared.voices.voice import Voice

YOUNG = NOW + CONVERTED_WITHIN - SECOND
UPLOADED_AT = "2026-03-04T05:00:00Z"


class DeadLetterStage:
    """A handler and everything around it; voices are too old to be put back."""

    def __init__(self, voices: MemoryVoices | None = None) -> None:
        self.now = NOW + CONVERTED_WITHIN
        self.voices = voices or MemoryVoices(now=lambda: self.now)
        self.uploads, self.results = MemoryBucket("uploads"), MemoryBucket("results")
        self.topic = RecordingPublisher()
        handler = DeadLetterHandler(self.voices, self.uploads, self.results, self.topic)
        self.handle = handler.handle

    async def add(self, voice: Voice) -> Voice:
        await self.voices.create(voice)
        return voice

    async def voice(self, voice: Voice) -> Voice:
        return (await self.voices.read(voice.voice_id)).voice

    def put_results(self, voice: Voice) -> str:
        """Store the results of two attempts at a voice and of one at another; return the other."""
        other = f"{new_voice_id()}/1.wav"
        for name in (f"{voice.voice_id}/1.wav", f"{voice.voice_id}/2.wav", other):
            self.results.put(name, b"sound")
        return other


def about_upload(voice: Voice) -> PushMessage:
    return upload_notification(an_upload(voice.voice_id), eventTime=UPLOADED_AT)


def about_conversion(voice: Voice) -> PushMessage:
    return conversion_message(voice.voice_id, uploaded_at=UPLOADED_AT)


BOTH_TOPICS = pytest.mark.parametrize("about", [about_upload, about_conversion])


@pytest.fixture
def stage() -> DeadLetterStage:
    return DeadLetterStage()


@pytest.fixture
def young(stage: DeadLetterStage) -> DeadLetterStage:
    """A stage whose voices are as old as they may be to be put back."""
    stage.now = YOUNG
    return stage


@pytest.fixture
def book() -> Iterator[LogBook]:
    with log_book() as kept:
        yield kept


@BOTH_TOPICS
@pytest.mark.parametrize("state", ["waiting", "queued", "converting"])
async def test_the_voice_of_a_dead_letter_is_failed(
    stage: DeadLetterStage, book: LogBook, about: Callable[[Voice], PushMessage], state: str
) -> None:
    voice = await stage.add(EVERY_STATE[state]())

    await stage.handle(about(voice))

    failed = await stage.voice(voice)
    assert (failed.status, failed.lease_expires_at) == (Status.FAILED, None)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.ATTEMPTS_EXHAUSTED
    assert "record again" in failed.error.message
    (entry,) = book.of("dead_lettered")
    assert (entry["voice"], entry["severity"]) == (logged_as(voice.voice_id), "ERROR")


@pytest.mark.parametrize("state", ["done", "failed"])
@pytest.mark.parametrize("now", [YOUNG, NOW + CONVERTED_WITHIN])
async def test_a_voice_that_is_over_keeps_its_end(
    stage: DeadLetterStage, book: LogBook, state: str, now: datetime
) -> None:
    stage.now = now
    voice = await stage.add(EVERY_STATE[state]())

    await stage.handle(about_conversion(voice))
    await stage.handle(about_upload(voice))

    assert (stage.topic.published, await stage.voice(voice)) == ([], voice)
    assert len(book.of("duplicate")) == 2


@BOTH_TOPICS
@pytest.mark.parametrize("state", ["waiting", "queued", "converting"])
async def test_a_young_voice_that_only_lacked_room_is_put_back_with_its_own_recording(
    young: DeadLetterStage, book: LogBook, about: Callable[[Voice], PushMessage], state: str
) -> None:
    voice = await young.add(EVERY_STATE[state]())
    young.put_results(voice)
    there = set(young.results.objects)

    await young.handle(about(voice))

    ((data, attributes),) = young.topic.published
    message = parse_conversion_message(PushMessage(data))
    assert message == ConversionMessage(voice.voice_id, an_upload(voice.voice_id), CLIENT)
    assert attributes == {"voice_id": voice.voice_id, "uploaded_at": UPLOADED_AT}
    kept = await young.voice(voice)
    assert (kept.status.is_final, kept.updated_at) == (False, YOUNG)
    assert set(young.results.objects) == there
    assert (len(book.of("delayed")), book.of("dead_lettered")) == (1, [])


async def test_a_young_voice_whose_attempts_are_used_up_is_failed(young: DeadLetterStage) -> None:
    voice = await young.add(replace(a_converting(), attempt=MOST_ATTEMPTS))

    await young.handle(about_conversion(voice))

    assert (await young.voice(voice)).status is Status.FAILED
    assert young.topic.published == []


async def test_while_a_worker_has_the_voice_the_dead_letter_comes_again(
    stage: DeadLetterStage,
) -> None:
    stage.now = NOW + SECOND
    voice = await stage.add(a_converting())
    stage.results.put(f"{voice.voice_id}/1.wav", b"sound")

    with pytest.raises(LeaseHeldError):
        await stage.handle(about_conversion(voice))

    assert (stage.topic.published, await stage.voice(voice)) == ([], voice)
    assert stage.results.objects.keys() == {f"{voice.voice_id}/1.wav"}


@pytest.mark.parametrize(
    "message",
    [
        PushMessage(b"garbage"),
        upload_notification(an_upload(new_voice_id(), object="stray")),
    ],
)
async def test_a_dead_letter_that_names_no_voice_is_seen_all_the_same(
    stage: DeadLetterStage, book: LogBook, message: PushMessage
) -> None:
    await stage.handle(message)

    (entry,) = book.of("dead_lettered")
    assert entry["message"] == "dead letter that names no voice"


@pytest.mark.parametrize(
    ("make", "is_stored", "kept"),
    [
        (a_converting, True, []),
        # An earlier delivery of the same dead letter may have left the voice failed.
        (a_failed, True, []),
        (a_converting, False, []),
        (a_done, True, ["1.wav"]),
    ],
)
async def test_all_results_and_the_recording_of_a_voice_are_deleted_but_the_result_of_a_done_one(
    *,
    stage: DeadLetterStage,
    book: LogBook,
    make: Callable[[], Voice],
    is_stored: bool,
    kept: list[str],
) -> None:
    voice = make()
    if is_stored:
        await stage.add(voice)
    other = stage.put_results(voice)
    generation = stage.uploads.put(voice.voice_id, b"recording")

    await stage.handle(upload_notification(an_upload(voice.voice_id, generation=generation)))

    assert stage.results.objects.keys() == {other, *(f"{voice.voice_id}/{each}" for each in kept)}
    assert stage.uploads.objects[voice.voice_id].data == b""
    # A visitor who deletes a voice alarms nobody.
    assert bool(book.of("dead_lettered")) is is_stored


async def test_an_unreachable_bucket_lets_the_dead_letter_be_redelivered(
    stage: DeadLetterStage,
) -> None:
    voice = await stage.add(a_converting())
    other = stage.put_results(voice)
    stage.results.is_out_of_reach = True

    with pytest.raises(StorageUnavailableError):
        await stage.handle(about_conversion(voice))
    stage.results.is_out_of_reach = False
    await stage.handle(about_conversion(voice))

    assert stage.results.objects.keys() == {other}


async def test_a_document_that_cannot_be_read_is_named_and_nothing_is_deleted(
    book: LogBook,
) -> None:
    class DamagedVoices(MemoryVoices):
        async def read(self, voice_id: str) -> Snapshot:
            raise UnreadableVoiceError(voice_id, KeyError("options"))

    stage, voice = DeadLetterStage(DamagedVoices()), a_converting()
    stage.put_results(voice)
    there = set(stage.results.objects)

    await stage.handle(about_conversion(voice))

    (entry,) = book.of("unreadable_voice")
    assert entry["voice"] == logged_as(voice.voice_id)
    assert stage.results.objects.keys() == there
