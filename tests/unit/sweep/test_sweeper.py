from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from functions.sweep.sweeper import (
    PAGE,
    PAGES,
    IncompleteSweepError,
    Patience,
    Remedy,
    Sweeper,
    decide,
)
from infra.local.cloud.memory import MemoryVoices
from shared.voices.media import TEXT_CONTENT_TYPE
from shared.voices.messages import ConversionMessage, PushMessage, parse_conversion_message
from shared.voices.store import FoundVoices, UnreadableVoiceError
from shared.voices.voice import (
    LEASE,
    ErrorCode,
    Speaking,
    Status,
    Voice,
    new_voice_id,
)
from tests.support.buckets import MemoryBucket
from tests.support.clock import Calendar
from tests.support.logs import log_book, logged_as
from tests.support.messages import RecordingPublisher
from tests.support.voices import (
    CLIENT,
    EVERY_STATE,
    NOW,
    SECOND,
    a_queued,
    a_waiting,
    an_upload,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


PATIENCE = Patience(timedelta(minutes=5), timedelta(minutes=10))


@dataclass
class House:
    clock: Calendar = field(default_factory=lambda: Calendar(NOW))
    uploads: MemoryBucket = field(default_factory=lambda: MemoryBucket("uploads"))
    topic: RecordingPublisher = field(default_factory=RecordingPublisher)

    def __post_init__(self) -> None:
        self.voices = MemoryVoices(self.clock)
        self.sweeper = self.sweeper_of(self.voices)

    def sweeper_of(self, voices: MemoryVoices, topic: RecordingPublisher | None = None) -> Sweeper:
        return Sweeper(voices, self.uploads, topic or self.topic, PATIENCE, self.clock)

    async def add(self, voice: Voice) -> Voice:
        await self.voices.create(voice)
        return voice

    def later(self, **duration: float) -> None:
        self.clock.advance(timedelta(**duration))

    async def voice(self, voice: Voice) -> Voice:
        return (await self.voices.read(voice.voice_id)).voice


@pytest.fixture
def house() -> House:
    return House()


@pytest.mark.parametrize(
    ("options", "content_type"),
    [
        ({}, "audio/ogg"),
        ({"speaking": Speaking(speed=1.5), "content_type": TEXT_CONTENT_TYPE}, TEXT_CONTENT_TYPE),
    ],
)
async def test_a_voice_whose_event_was_lost_is_queued_with_the_recording_or_text_that_is_there(
    house: House, options: dict[str, Any], content_type: str
) -> None:
    voice = await house.add(a_waiting(**options))
    too_young = await house.add(a_waiting(now=NOW + timedelta(minutes=2)))
    generation = house.uploads.put(voice.voice_id, b"recording", content_type)
    house.later(minutes=6)

    with log_book() as book:
        assert await house.sweeper.sweep() == {"put_back": 1, "expire": 0}

    expected = an_upload(voice.voice_id, generation=generation, content_type=content_type, bytes=9)
    queued = await house.voice(voice)
    assert (queued.status, queued.input) == (Status.QUEUED, expected)
    assert queued.options == voice.options
    ((data, attributes),) = house.topic.published
    assert attributes["voice_id"] == voice.voice_id
    message = parse_conversion_message(PushMessage(data))
    assert message == ConversionMessage(voice.voice_id, expected, CLIENT)
    assert await house.voice(too_young) == too_young
    (entry,) = book.of("swept")
    assert (entry["looked_at"], entry["put_back"], entry["expire"]) == (1, 1, 0)
    assert entry["failures"] == 0
    assert len(book.of("voice_put_back")) == 1


async def test_the_conversion_of_a_queued_voice_is_requested_again_once_per_waiting_period(
    house: House,
) -> None:
    await house.add(a_queued())
    house.later(minutes=6)

    await house.sweeper.sweep()
    house.later(minutes=4)
    await house.sweeper.sweep()
    assert len(house.topic.published) == 1

    house.later(minutes=2)
    await house.sweeper.sweep()
    assert len(house.topic.published) == 2


async def test_a_voice_that_was_never_uploaded_fails_visibly(house: House) -> None:
    voice = await house.add(a_waiting())
    house.later(minutes=10)
    assert await house.sweeper.sweep() == {"put_back": 0, "expire": 0}
    house.later(minutes=11)

    assert await house.sweeper.sweep() == {"put_back": 0, "expire": 1}

    failed = await house.voice(voice)
    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error.code is ErrorCode.UPLOAD_EXPIRED
    assert house.topic.published == []


async def test_what_fails_is_tried_at_the_next_sweep_and_an_unreachable_bucket_expires_no_voice(
    house: House,
) -> None:
    voices = [a_queued(), a_queued(), a_waiting(now=NOW - timedelta(minutes=30))]
    for voice in voices:
        await house.voices.create(voice)
    house.later(minutes=6)
    house.topic.failures_left = 1
    house.uploads.is_out_of_reach = True

    with pytest.raises(IncompleteSweepError, match="2 of 3"):
        await house.sweeper.sweep()
    assert (len(house.topic.published), await house.voice(voices[2])) == (1, voices[2])

    house.uploads.is_out_of_reach = False
    assert await house.sweeper.sweep() == {"put_back": 1, "expire": 1}
    assert {attributes["voice_id"] for _, attributes in house.topic.published} == {
        voice.voice_id for voice in voices[:2]
    }


async def test_a_voice_that_moves_on_during_the_sweep_is_left_alone(house: House) -> None:
    voice = await house.add(a_queued())
    house.later(minutes=6)

    class OvertakingPublisher(RecordingPublisher):
        async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
            await super().publish(data, attributes)
            await house.voices.delete(voice.voice_id)

    sweeper = house.sweeper_of(house.voices, OvertakingPublisher())
    with log_book() as book:
        assert await sweeper.sweep() == {"put_back": 0, "expire": 0}
    assert len(book.of("overtaken")) == 1


async def test_a_sweep_ends_however_many_voices_there_are(house: House) -> None:
    class EndlessVoices(MemoryVoices):
        searches = 0

        async def find_unchanged(
            self, status: Status, *, since: datetime, limit: int, after: object = None
        ) -> FoundVoices:
            del status, since
            assert (after in {None, self.searches}, limit) == (True, PAGE)
            self.searches += 1
            return FoundVoices((), end=self.searches)

    voices = EndlessVoices()
    with log_book() as book:
        assert await house.sweeper_of(voices).sweep() == {"put_back": 0, "expire": 0}

    assert voices.searches == 3 * PAGES
    statuses = [entry["status"] for entry in book.of("sweep_cut")]
    assert statuses == ["waiting", "queued", "converting"]


async def test_an_unreadable_document_is_named_and_the_sweep_continues(house: House) -> None:
    damaged = UnreadableVoiceError(new_voice_id(), KeyError("options"))

    class VoicesWithADamagedOne(MemoryVoices):
        async def find_unchanged(
            self, status: Status, *, since: datetime, limit: int, after: object = None
        ) -> FoundVoices:
            found = await super().find_unchanged(status, since=since, limit=limit, after=after)
            return replace(found, unreadable=[damaged] if status is Status.QUEUED else ())

    voices, voice = VoicesWithADamagedOne(house.clock), a_queued()
    await voices.create(voice)
    house.later(minutes=6)

    with log_book() as book:
        assert await house.sweeper_of(voices).sweep() == {"put_back": 1, "expire": 0}

    (entry,) = book.of("unreadable_voice")
    assert (entry["severity"], entry["voice"]) == ("ERROR", logged_as(damaged.voice_id))
    assert "options" in entry["message"]
    assert [swept["unreadable"] for swept in book.of("swept")] == [1]


async def test_after_an_unexpected_error_the_sweep_continues(house: House) -> None:
    strange = replace(a_waiting(), voice_id="not-a-voice-id")
    voice = a_queued()
    for each in (strange, voice):
        await house.voices.create(each)
    house.later(minutes=6)

    with log_book() as book, pytest.raises(IncompleteSweepError, match="1 of 2"):
        await house.sweeper.sweep()

    assert [attributes["voice_id"] for _, attributes in house.topic.published] == [voice.voice_id]
    (entry,) = book.of("not_swept")
    assert "InvalidVoiceIdError" in entry["stack_trace"]
    assert entry["voice"] == logged_as(strange.voice_id)


UNCHANGED = PATIENCE.unchanged
UPLOAD_ENDS = 2 * PATIENCE.upload
WAITING, QUEUED, CONVERTING, DONE, FAILED = (make() for make in EVERY_STATE.values())
LEASED = replace(CONVERTING, lease_expires_at=NOW + timedelta(hours=2))


@pytest.mark.parametrize(
    ("voice", "has_upload", "age", "remedy"),
    [
        (WAITING, True, UNCHANGED, Remedy.PUT_BACK),
        (WAITING, True, UNCHANGED - SECOND, Remedy.NONE),
        (WAITING, False, UPLOAD_ENDS, Remedy.NONE),
        (WAITING, False, UPLOAD_ENDS + SECOND, Remedy.EXPIRE),
        (WAITING, True, 10 * UPLOAD_ENDS, Remedy.PUT_BACK),
        (QUEUED, True, UNCHANGED - SECOND, Remedy.NONE),
        (QUEUED, True, UNCHANGED, Remedy.PUT_BACK),
        (CONVERTING, True, LEASE + UNCHANGED - SECOND, Remedy.NONE),
        (CONVERTING, True, LEASE + UNCHANGED, Remedy.PUT_BACK),
        (LEASED, True, timedelta(hours=1), Remedy.NONE),
        (DONE, True, timedelta(days=1), Remedy.NONE),
        (FAILED, True, timedelta(days=1), Remedy.NONE),
    ],
)
def test_what_is_decided_about_a_voice(
    *, voice: Voice, has_upload: bool, age: timedelta, remedy: Remedy
) -> None:
    upload = an_upload(voice.voice_id) if has_upload else None

    assert decide(voice, upload, now=NOW + age, patience=PATIENCE) is remedy
