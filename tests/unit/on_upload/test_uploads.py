from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from functions.on_upload.uploads import (
    FIRST_PAUSE,
    LEASING,
    LONGEST_PAUSE,
    UploadHandler,
)
from infra.local.cloud.memory import MemoryVoices
from shared.pipeline import LIVE
from shared.voices import voice as voices_of
from shared.voices.media import EMPTY_CONTENT_TYPE
from shared.voices.messages import (
    ConversionMessage,
    MalformedMessageError,
    PushMessage,
    parse_conversion_message,
)
from shared.voices.store import Snapshot, StoreUnavailableError
from shared.voices.voice import (
    LEASE,
    ErrorCode,
    Input,
    LeaseHeldError,
    PublishError,
    Speaking,
    Status,
    Voice,
    new_voice_id,
)
from tests.support.buckets import MemoryBucket
from tests.support.logs import LogBook, log_book, logged_as
from tests.support.messages import RecordingPublisher, upload_notification
from tests.support.voices import (
    CLIENT,
    EVERY_STATE,
    NOW,
    a_converting,
    a_done,
    a_waiting,
    an_upload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from shared.ports import Bucket


class CrashingVoices(MemoryVoices):
    """Counts reads, and cannot be written to, so often."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.crashes_left = 0
        self.reads = 0

    async def read(self, voice_id: str) -> Snapshot:
        self.reads += 1
        return await super().read(voice_id)

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        if self.crashes_left:
            self.crashes_left -= 1
            raise StoreUnavailableError("down")
        return await super().replace(snapshot, voice)


class WatchingPublisher(RecordingPublisher):
    """Also keeps the voice's status at the time of publishing, and can run an action then."""

    def __init__(self, voices: MemoryVoices) -> None:
        super().__init__()
        self._voices = voices
        self.statuses: list[Status] = []
        self.overtakes = False
        self.deletes = False

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        await super().publish(data, attributes)
        snapshot = await self._voices.read(attributes["voice_id"])
        self.statuses.append(snapshot.voice.status)
        if self.overtakes:
            voice = snapshot.voice
            leased = voices_of.lease(voice, snapshot.read_at, an_upload(voice.voice_id))
            await self._voices.replace(snapshot, leased)
        if self.deletes:
            await self._voices.delete(snapshot.voice.voice_id)


PATIENCE = 60.0


class UploadStage:
    """A handler and everything around it; `ends` happens while the handler sleeps."""

    def __init__(self) -> None:
        self.now = NOW
        self.slept: list[float] = []
        self.only: str | None = None
        self.ends: Callable[[Voice], Voice] | None = None
        self.voices = CrashingVoices(lambda: self.now)
        self.topic = WatchingPublisher(self.voices)
        self.bucket = MemoryBucket("uploads")
        self.bucket_openings = 0
        self.handler = UploadHandler(
            self.voices, self.topic, self.open_bucket, PATIENCE, self.sleep
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)
        if self.ends is not None and self.only is not None:
            snapshot = await self.voices.read(self.only)
            await self.voices.replace(snapshot, self.ends(snapshot.voice))

    def event(self, upload: Input, age: float = 0.1, **changes: Any) -> PushMessage:
        """Return the notification of an upload that ended some seconds ago."""
        moment = (self.now - timedelta(seconds=age)).isoformat()
        return upload_notification(upload, eventTime=moment, **changes)

    def open_bucket(self) -> Bucket:
        self.bucket_openings += 1
        return self.bucket

    async def add(self, voice: Voice) -> Input:
        await self.voices.create(voice)
        self.only = voice.voice_id
        return an_upload(voice.voice_id)

    async def voice(self, voice_id: str) -> Voice:
        return (await self.voices.read(voice_id)).voice

    async def is_untouched(self, voice: Voice) -> bool:
        return not self.topic.published and await self.voice(voice.voice_id) == voice


def end(voice: Voice) -> Voice:
    """Return a voice as `live`, or another worker, leaves it."""
    return replace(a_done(), voice_id=voice.voice_id, input=an_upload(voice.voice_id))


@pytest.fixture
def stage() -> UploadStage:
    return UploadStage()


@pytest.fixture
def book() -> Iterator[LogBook]:
    with log_book() as kept:
        yield kept


async def test_the_event_of_a_text_is_ignored_because_the_api_requests_its_conversion(
    stage: UploadStage, book: LogBook
) -> None:
    upload = await stage.add(voice := a_waiting(speaking=Speaking()))

    await stage.handler.handle(upload_notification(upload))

    assert not stage.topic.published
    assert [entry["reason"] for entry in book.of("duplicate")] == ["voice is made from a text"]
    assert (await stage.voice(voice.voice_id)).status is Status.WAITING


async def test_a_finished_upload_is_published_first_and_recorded_then(
    stage: UploadStage, book: LogBook
) -> None:
    upload = await stage.add(voice := a_waiting())

    await stage.handler.handle(upload_notification(upload))

    ((data, attributes),) = stage.topic.published
    message = parse_conversion_message(PushMessage(data))
    assert message == ConversionMessage(voice.voice_id, upload, CLIENT)
    assert attributes == {
        "voice_id": voice.voice_id,
        "uploaded_at": "2026-03-04T05:06:07.123456Z",
    }
    assert stage.topic.statuses == [Status.WAITING]
    recorded = await stage.voice(voice.voice_id)
    assert (recorded.status, recorded.input) == (Status.QUEUED, upload)
    (entry,) = book.of("upload_received")
    assert (entry["voice"], entry["bytes"]) == (logged_as(voice.voice_id), 4321)
    assert (entry["generation"], entry["content_type"]) == (upload.generation, upload.content_type)
    assert stage.bucket_openings == 0


async def test_an_event_costs_one_read_of_its_voice(stage: UploadStage) -> None:
    upload = await stage.add(a_waiting())
    # The stage's own topic looks at the voice.
    handler = UploadHandler(stage.voices, RecordingPublisher(), stage.open_bucket, PATIENCE)

    await handler.handle(upload_notification(upload))

    assert stage.voices.reads == 1


async def test_an_unpublished_conversion_is_not_recorded(stage: UploadStage) -> None:
    upload = await stage.add(voice := a_waiting())
    stage.topic.failures_left = 1

    with pytest.raises(PublishError):
        await stage.handler.handle(upload_notification(upload))
    assert (await stage.voice(voice.voice_id)).status is Status.WAITING

    await stage.handler.handle(upload_notification(upload))
    assert (await stage.voice(voice.voice_id)).status is Status.QUEUED


async def test_a_crash_between_publishing_and_recording_repeats_and_loses_nothing(
    stage: UploadStage,
) -> None:
    upload = await stage.add(voice := a_waiting())
    stage.voices.crashes_left = 1

    with pytest.raises(StoreUnavailableError):
        await stage.handler.handle(upload_notification(upload))
    await stage.handler.handle(upload_notification(upload))

    assert len({data for data, _ in stage.topic.published}) == 1
    assert len(stage.topic.published) == 2
    assert (await stage.voice(voice.voice_id)).status is Status.QUEUED


@pytest.mark.parametrize("state", ["queued", "done", "failed"])
async def test_a_duplicate_is_recognised_by_its_object_not_by_its_message_id(
    stage: UploadStage, book: LogBook, state: str
) -> None:
    upload = await stage.add(voice := EVERY_STATE[state]())
    again = replace(upload_notification(upload), message_id="another")

    await stage.handler.handle(again)

    assert await stage.is_untouched(voice)
    assert [entry["reason"] for entry in book.of("duplicate")] == ["same upload"]


async def test_another_generation_for_a_voice_that_has_its_recording_changes_nothing(
    stage: UploadStage, book: LogBook
) -> None:
    upload = await stage.add(voice := EVERY_STATE["queued"]())

    await stage.handler.handle(upload_notification(replace(upload, generation=2)))

    assert await stage.is_untouched(voice)
    assert [entry["reason"] for entry in book.of("duplicate")] == ["voice is queued"]


async def test_an_event_waits_while_a_worker_owns_its_voice_and_is_over_with_it(
    stage: UploadStage,
) -> None:
    upload = await stage.add(voice := a_converting(NOW))
    stage.ends = end

    await stage.handler.handle(stage.event(upload))

    assert (stage.slept, stage.topic.published) == ([FIRST_PAUSE], [])
    assert (await stage.voice(voice.voice_id)).status is Status.DONE


async def test_the_event_of_a_voice_that_is_owned_for_long_comes_again(stage: UploadStage) -> None:
    upload = await stage.add(a_converting(NOW))
    stage.ends = lambda voice: voices_of.renew(voice, stage.now, 1, "converting", LEASE)

    with pytest.raises(LeaseHeldError):
        await stage.handler.handle(stage.event(upload))

    assert sum(stage.slept) == pytest.approx(PATIENCE)
    assert max(stage.slept) == LONGEST_PAUSE
    assert stage.topic.published == []


async def test_the_voice_of_a_dead_worker_is_published_when_its_lease_ends(
    stage: UploadStage,
) -> None:
    upload = await stage.add(a_converting(NOW))

    await stage.handler.handle(stage.event(upload))

    assert sum(stage.slept) == LEASE.total_seconds()
    assert len(stage.topic.published) == 1


async def test_a_voice_that_live_is_about_to_lease_is_left_to_it(stage: UploadStage) -> None:
    upload = await stage.add(a_waiting())
    stage.ends = end

    await stage.handler.handle(stage.event(upload, metadata=LIVE))

    assert (stage.slept, stage.topic.published) == ([FIRST_PAUSE], [])


@pytest.mark.parametrize(
    ("metadata", "moment", "seconds"),
    [
        (LIVE, NOW.isoformat(), LEASING.total_seconds()),
        (LIVE, "", 0.0),
        (LIVE, "yesterday", 0.0),
        ({}, NOW.isoformat(), 0.0),
        ({"way": "other"}, NOW.isoformat(), 0.0),
    ],
)
async def test_if_live_has_died_or_has_nothing_to_do_with_it_the_conversion_is_requested(
    stage: UploadStage, metadata: dict[str, str], moment: str, seconds: float
) -> None:
    upload = await stage.add(voice := a_waiting())

    await stage.handler.handle(upload_notification(upload, metadata=metadata, eventTime=moment))

    assert (sum(stage.slept), len(stage.topic.published)) == (seconds, 1)
    assert (await stage.voice(voice.voice_id)).status is Status.QUEUED


@pytest.mark.parametrize("state", ["done", "failed"])
async def test_an_upload_to_a_voice_that_is_over_is_emptied_and_its_address_stays_used(
    stage: UploadStage, state: str
) -> None:
    await stage.add(voice := EVERY_STATE[state]())
    generation = stage.bucket.put(voice.voice_id, b"once more")

    event = upload_notification(an_upload(voice.voice_id, generation=generation))
    await stage.handler.handle(event)

    assert stage.bucket.objects[voice.voice_id].data == b""
    assert await stage.is_untouched(voice)


async def test_the_event_of_an_emptied_recording_is_ignored_unread(stage: UploadStage) -> None:
    voice_id = new_voice_id()

    emptied = an_upload(voice_id, bytes=0, content_type=EMPTY_CONTENT_TYPE)
    await stage.handler.handle(upload_notification(emptied))

    assert (stage.bucket_openings, stage.topic.published) == (0, [])


async def test_a_recording_without_bytes_fails_its_voice_at_once(stage: UploadStage) -> None:
    await stage.add(voice := a_waiting())

    await stage.handler.handle(upload_notification(an_upload(voice.voice_id, bytes=0)))

    failed = await stage.voice(voice.voice_id)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.NO_AUDIO
    assert (stage.bucket_openings, stage.topic.published) == (0, [])


async def test_a_voice_whose_worker_died_without_any_message_is_converted(
    stage: UploadStage,
) -> None:
    upload = await stage.add(voice := a_converting(NOW - 2 * LEASE))

    await stage.handler.handle(upload_notification(upload))

    ((data, _),) = stage.topic.published
    assert parse_conversion_message(PushMessage(data)).upload == upload
    found = await stage.voice(voice.voice_id)
    assert (found.status, found.attempt) == (Status.CONVERTING, voice.attempt)


async def test_another_generation_for_a_voice_that_was_leased_is_ignored(
    stage: UploadStage, book: LogBook
) -> None:
    upload = await stage.add(a_converting(NOW - 2 * LEASE))

    await stage.handler.handle(upload_notification(replace(upload, generation=2)))

    assert stage.topic.published == []
    assert [entry["reason"] for entry in book.of("duplicate")] == ["voice is converting"]


async def test_a_conversion_that_is_faster_than_its_record_is_left_alone(
    stage: UploadStage, book: LogBook
) -> None:
    upload = await stage.add(voice := a_waiting())
    stage.topic.overtakes = True

    await stage.handler.handle(upload_notification(upload))

    assert (await stage.voice(voice.voice_id)).status is Status.CONVERTING
    assert book.of("overtaken")


async def test_a_voice_deleted_between_publishing_and_recording_stays_deleted(
    stage: UploadStage, book: LogBook
) -> None:
    upload = await stage.add(a_waiting())
    stage.topic.deletes = True

    await stage.handler.handle(upload_notification(upload))

    assert book.of("overtaken")


async def test_the_upload_of_a_deleted_voice_is_erased(stage: UploadStage, book: LogBook) -> None:
    voice_id = new_voice_id()
    generation = stage.bucket.put(voice_id, b"sound")
    upload = an_upload(voice_id, generation=generation)

    await stage.handler.handle(upload_notification(upload))
    await stage.handler.handle(upload_notification(upload))

    assert stage.bucket.objects[voice_id].data == b""
    assert (stage.topic.published, len(book.of("upload_erased"))) == ([], 2)


async def test_only_the_announced_generation_is_erased(stage: UploadStage) -> None:
    voice_id = new_voice_id()
    generation = stage.bucket.put(voice_id, b"newer")

    await stage.handler.handle(upload_notification(an_upload(voice_id, generation=generation + 1)))

    assert stage.bucket.objects[voice_id].data == b"newer"


@pytest.mark.parametrize(
    "name", ["stray.wav", "", "3c7d1f2a-94be-1c0d-8f11-5a6b7c8d9e0f/1.wav", "../x"]
)
async def test_a_stray_object_is_noted_and_left_alone(
    stage: UploadStage, book: LogBook, name: str
) -> None:
    stage.bucket.put(name, b"x")

    await stage.handler.handle(upload_notification(an_upload(new_voice_id(), object=name)))

    assert (set(stage.bucket.objects), stage.topic.published) == ({name}, [])
    assert [entry["object"] for entry in book.of("stray_upload")] == [name]


@pytest.mark.parametrize("kind", ["OBJECT_DELETE", "OBJECT_METADATA_UPDATE", "OBJECT_ARCHIVE"])
async def test_other_events_are_ignored(stage: UploadStage, kind: str) -> None:
    upload = await stage.add(voice := a_waiting())

    await stage.handler.handle(upload_notification(upload, eventType=kind))

    assert await stage.is_untouched(voice)


async def test_a_message_that_is_not_a_notification_is_refused(stage: UploadStage) -> None:
    with pytest.raises(MalformedMessageError):
        await stage.handler.handle(PushMessage(b"{}"))
