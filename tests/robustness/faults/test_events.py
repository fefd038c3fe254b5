"""Events and messages that are duplicated, out of order, late, or about deleted objects."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from google.api_core.exceptions import PreconditionFailed

from infra.local.configuration import names
from shared.voices.voice import ErrorCode, Input
from tests.robustness.faults.endings import require_one_failure, require_one_result
from tests.support.messages import upload_notification

if TYPE_CHECKING:
    from tests.robustness.faults.cloud import FaultyCloud

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]


def the_upload(cloud: FaultyCloud, voice_id: str, generation: int) -> Input:
    return Input(cloud.uploads_bucket(voice_id), voice_id, generation, "audio/webm", 27_605)


async def send_upload_event(cloud: FaultyCloud, voice_id: str, generation: int) -> None:
    event = upload_notification(the_upload(cloud, voice_id, generation))
    await cloud.publish(names.UPLOADS_TOPIC, event.data, event.attributes)


async def test_an_event_that_comes_several_times_at_once_makes_one_result(
    cloud: FaultyCloud,
) -> None:
    voice_id, copies = await cloud.create_voice(), 3
    for point in ("publishing", "before_leased"):
        cloud.barriers.hold(voice_id, point)

    generation = await cloud.upload(voice_id)
    await asyncio.gather(
        *(send_upload_event(cloud, voice_id, generation) for _ in range(copies - 1))
    )
    # Each has seen the voice waiting, so each asks for its conversion.
    await cloud.barriers.arrival(voice_id, "publishing", times=copies)
    cloud.barriers.release(voice_id, "publishing")
    # Each has seen the voice free, so each tries to take its lease.
    await cloud.barriers.arrival(voice_id, "before_leased", times=copies)
    cloud.barriers.release(voice_id, "before_leased")

    done = await require_one_result(cloud, voice_id, messages=copies)
    assert done.attempt == 1
    assert len(cloud.barriers.notes(voice_id, "leased")) == 1
    assert len(cloud.barriers.notes(voice_id, "done")) == 1


async def test_a_recording_deleted_before_it_is_read_fails_as_missing(cloud: FaultyCloud) -> None:
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "reading")
    await cloud.upload(voice_id)
    await cloud.barriers.arrival(voice_id, "reading")

    await cloud.delete_upload(voice_id)
    cloud.barriers.release(voice_id, "reading")

    await require_one_failure(cloud, voice_id, ErrorCode.SOURCE_MISSING)


async def test_an_event_without_its_object_fails_the_voice(cloud: FaultyCloud) -> None:
    voice_id = await cloud.create_voice()

    await send_upload_event(cloud, voice_id, generation=1)

    await require_one_failure(cloud, voice_id, ErrorCode.SOURCE_MISSING)


async def test_an_upload_to_an_erased_voice_is_erased(cloud: FaultyCloud) -> None:
    voice_id = await cloud.create_voice()
    await cloud.voices.delete(voice_id)

    await cloud.upload(voice_id)

    await cloud.front.acknowledged(voice_id, "on_upload")
    assert await cloud.upload_bytes(voice_id) == 0
    # The object stays, so that the address takes nothing more.
    with pytest.raises(PreconditionFailed):
        await cloud.upload(voice_id)
    assert list(cloud.front.about(voice_id)) == []
