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
from tests.support.stores import CountedVoices
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
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from infra.local.cloud.memory import MemoryVoices
    from shared.ports import Bucket


class WatchingPublisher(RecordingPublisher):
    """Also keeps the voice's status at the time of publishing, and can run an action then."""

    def __init__(self, voices: MemoryVoices) -> None:
        super().__init__()
        self._voices = voices
        self.statuses: list[Status] = []
        self.act: Callable[[Snapshot], Awaitable[object]] | None = None

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        await super().publish(data, attributes)
        snapshot = await self._voices.read(attributes["voice_id"])
        self.statuses.append(snapshot.voice.status)
        if self.act is not None:
            await self.act(snapshot)


PATIENCE = 60.0


class UploadStage:
    """A handler and everything around it; `ends` happens while the handler sleeps."""

    def __init__(self) -> None:
        self.now = NOW
        self.slept: list[float] = []
        self.only: str | None = None
        self.ends: Callable[[Voice], Voice] | None = None
        self.voices = CountedVoices(now=lambda: self.now)
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


async def test_a_crash_between_publishing_and_recording_repeats_and_loses_nothing(
    stage: UploadStage,
) -> None:
    upload = await stage.add(voice := a_waiting())
    stage.voices.failing_writes = 1

    with pytest.raises(StoreUnavailableError):
        await stage.handler.handle(upload_notification(upload))
    await stage.handler.handle(upload_notification(upload))

    assert len({data for data, _ in stage.topic.published}) == 1
    assert len(stage.topic.published) == 2
    assert (await stage.voice(voice.voice_id)).status is Status.QUEUED


@pytest.mark.parametrize(
    ("voice", "changes", "reason"),
    [
        *((EVERY_STATE[state](), {}, "same upload") for state in ("queued", "done", "failed")),
        (EVERY_STATE["queued"](), {"generation": 2}, "voice is queued"),
        (a_converting(NOW - 2 * LEASE), {"generation": 2}, "voice is converting"),
        (a_waiting(speaking=Speaking()), {}, "voice is made from a text"),
    ],
)
async def test_an_event_about_which_nothing_is_to_do_is_ignored(
    *, stage: UploadStage, book: LogBook, voice: Voice, changes: dict[str, Any], reason: str
) -> None:
    upload = await stage.add(voice)
    again = replace(upload_notification(replace(upload, **changes)), message_id="another")

    await stage.handler.handle(again)

    assert await stage.is_untouched(voice)
    assert [entry["reason"] for entry in book.of("duplicate")] == [reason]


@pytest.mark.parametrize(
    ("voice", "metadata"), [(a_converting(NOW), {}), (a_waiting(), LIVE)], ids=["leased", "live"]
)
async def test_an_event_waits_while_somebody_owns_its_voice_and_is_over_with_it(
    stage: UploadStage, voice: Voice, metadata: Mapping[str, str]
) -> None:
    upload = await stage.add(voice)
    stage.ends = end

    await stage.handler.handle(stage.event(upload, metadata=metadata))

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


@pytest.mark.parametrize("begin", [NOW, NOW - 2 * LEASE])
async def test_the_voice_of_a_dead_worker_is_published_when_its_lease_ends(
    stage: UploadStage, begin: datetime
) -> None:
    upload = await stage.add(voice := a_converting(begin))

    await stage.handler.handle(stage.event(upload))

    assert sum(stage.slept) == (LEASE.total_seconds() if begin == NOW else 0.0)
    ((data, _),) = stage.topic.published
    assert parse_conversion_message(PushMessage(data)).upload == upload
    found = await stage.voice(voice.voice_id)
    assert (found.status, found.attempt) == (Status.CONVERTING, voice.attempt)


@pytest.mark.parametrize(
    ("metadata", "moment", "seconds"),
    [
        (LIVE, NOW.isoformat(), LEASING.total_seconds()),
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


async def test_a_recording_without_bytes_fails_its_voice_unless_we_have_emptied_it(
    stage: UploadStage,
) -> None:
    await stage.add(voice := a_waiting())
    emptied = an_upload(voice.voice_id, bytes=0, content_type=EMPTY_CONTENT_TYPE)

    await stage.handler.handle(upload_notification(emptied))
    assert stage.voices.reads == 0
    await stage.handler.handle(upload_notification(an_upload(voice.voice_id, bytes=0)))

    failed = await stage.voice(voice.voice_id)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.NO_AUDIO
    assert (stage.bucket_openings, stage.topic.published) == (0, [])


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_voice_that_is_leased_or_deleted_between_publishing_and_recording_is_left_alone(
    stage: UploadStage, book: LogBook, *, is_deleted: bool
) -> None:
    upload = await stage.add(a_waiting())

    async def overtake(snapshot: Snapshot) -> None:
        leased = voices_of.lease(snapshot.voice, snapshot.read_at, upload)
        await stage.voices.replace(snapshot, leased)
        if is_deleted:
            await stage.voices.delete(leased.voice_id)

    stage.topic.act = overtake
    await stage.handler.handle(upload_notification(upload))

    assert book.of("overtaken")
    assert stage.voices.count == (0 if is_deleted else 1)
    if not is_deleted:
        assert (await stage.voice(upload.object)).status is Status.CONVERTING


async def test_the_upload_of_a_deleted_voice_is_erased(stage: UploadStage, book: LogBook) -> None:
    voice_id = new_voice_id()
    generation = stage.bucket.put(voice_id, b"sound")
    upload = an_upload(voice_id, generation=generation)

    # Only the announced generation is erased.
    await stage.handler.handle(upload_notification(replace(upload, generation=generation + 1)))
    assert stage.bucket.objects[voice_id].data == b"sound"
    await stage.handler.handle(upload_notification(upload))
    await stage.handler.handle(upload_notification(upload))

    assert stage.bucket.objects[voice_id].data == b""
    assert (stage.topic.published, len(book.of("upload_erased"))) == ([], 3)


@pytest.mark.parametrize("name", ["stray.wav", "3c7d1f2a-94be-1c0d-8f11-5a6b7c8d9e0f/1.wav"])
async def test_a_stray_object_is_noted_and_left_alone(
    stage: UploadStage, book: LogBook, name: str
) -> None:
    stage.bucket.put(name, b"x")

    await stage.handler.handle(upload_notification(an_upload(new_voice_id(), object=name)))

    assert (set(stage.bucket.objects), stage.topic.published) == ({name}, [])
    assert [entry["object"] for entry in book.of("stray_upload")] == [name]


async def test_other_events_are_ignored_and_other_messages_refused(stage: UploadStage) -> None:
    upload = await stage.add(voice := a_waiting())

    await stage.handler.handle(upload_notification(upload, eventType="OBJECT_DELETE"))
    with pytest.raises(MalformedMessageError):
        await stage.handler.handle(PushMessage(b"{}"))

    assert await stage.is_untouched(voice)
