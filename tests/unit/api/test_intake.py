"""The intake of voices, where the api's routes do not lead to it at the right moment."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from functions.api.answers.problems import Problem
from functions.api.taking.creation import VoiceIntake
from infra.local.memory.voices import MemoryVoices
from shared.voices.media import SNIFF_BYTES
from tests.support.buckets import MemoryBucket
from tests.support.voices import ERROR, a_queued, a_text, a_waiting, is_sentence, stored
from tests.unit.api.stage import WEBM

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import BinaryIO

    from functions.api.taking.catalogue import Catalogue
    from shared.voices.objects import ObjectFacts
    from shared.voices.voice import Voice

LONG_TYPE = "audio/" + 100 * "x"


def intake_of(voices: MemoryVoices, uploads: MemoryBucket) -> VoiceIntake:
    return VoiceIntake(
        voices=voices,
        uploads=uploads,
        results=MemoryBucket("results"),
        catalogue=cast("Catalogue", None),
        max_bytes=1000,
        upload_lifetime=timedelta(minutes=10),
    )


class Told(MemoryBucket):
    """Keeps the sizes that it is told."""

    def __init__(self) -> None:
        super().__init__("uploads")
        self.sizes: list[int | None] = []

    async def write(
        self, name: str, content: BinaryIO, *, size: int | None = None, **facts: Any
    ) -> ObjectFacts:
        self.sizes.append(size)
        return await super().write(name, content, size=size, **facts)


class Watched(io.BytesIO):
    """Keeps how much of it was asked for."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.asked: list[int | None] = []

    def read(self, size: int | None = -1) -> bytes:
        self.asked.append(size)
        return super().read(size)


async def fail(intake: VoiceIntake, voice: Voice) -> None:
    await intake.fail(voice, ERROR)


async def expire(intake: VoiceIntake, voice: Voice) -> None:
    await intake.expire(voice)


@pytest.mark.parametrize("act", [fail, expire])
async def test_a_voice_that_is_queued_or_deleted_meanwhile_does_not_fail(
    act: Callable[[VoiceIntake, Voice], Awaitable[None]],
) -> None:
    voices, queued = MemoryVoices(), a_queued()
    intake = intake_of(voices, MemoryBucket("uploads"))
    await stored(voices, queued)

    for voice in (queued, a_waiting()):
        await act(intake, voice)

    assert (await voices.read(queued.voice_id)).voice == queued


async def test_a_text_takes_no_recording() -> None:
    uploads = MemoryBucket("uploads")

    with pytest.raises(Problem, match="has its recording already") as caught:
        await intake_of(MemoryVoices(), uploads).accept_recording(
            a_text(), io.BytesIO(WEBM), len(WEBM), "audio/webm"
        )

    assert (caught.value.status, uploads.objects) == (409, {})


async def test_only_the_beginning_of_a_recording_is_looked_at_before_it_is_stored() -> None:
    uploads, content, voice = Told(), Watched(WEBM), a_waiting()

    await intake_of(MemoryVoices(), uploads).accept_recording(
        voice, content, len(WEBM), "audio/webm"
    )

    assert (content.asked[0], uploads.sizes) == (SNIFF_BYTES, [len(WEBM)])
    assert uploads.objects[voice.voice_id].data == WEBM


@pytest.mark.parametrize(
    ("content", "content_type", "named"),
    [(b"<html>", "audio/webm", "WebM, MP4"), (WEBM, LONG_TYPE, f"{LONG_TYPE[:80]!r}.")],
)
async def test_a_file_that_is_refused_is_described_in_a_sentence(
    content: bytes, content_type: str, named: str
) -> None:
    intake = intake_of(MemoryVoices(), MemoryBucket("uploads"))

    with pytest.raises(Problem) as caught:
        await intake.accept_recording(a_waiting(), io.BytesIO(content), len(content), content_type)

    assert (named in caught.value.detail, is_sentence(caught.value.detail)) == (True, True)


async def test_a_late_cleaning_leaves_a_newer_object_alone() -> None:
    class Changing(MemoryBucket):
        async def find(self, name: str) -> ObjectFacts:
            found = await super().find(name)
            self.put(name, b"newer")
            return found

    uploads, voice = Changing("uploads"), a_waiting()
    uploads.put(voice.voice_id, b"recording")

    await intake_of(MemoryVoices(), uploads).erase_objects(voice.voice_id)

    assert uploads.objects[voice.voice_id].data == b"newer"
