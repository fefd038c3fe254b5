"""Events and messages that are duplicated, out of order, late, or about deleted objects."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest
from google.api_core.exceptions import PreconditionFailed

from infra.local.configuration import names
from shared.voices.messages import ConversionMessage
from shared.voices.store import UnknownVoiceError
from shared.voices.voice import ErrorCode, Input, Status
from tests.robustness.faults.endings import require_one_failure, require_one_result
from tests.support.messages import upload_notification
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from tests.robustness.faults.cloud import FaultyCloud

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]


def the_upload(cloud: FaultyCloud, voice_id: str, generation: int) -> Input:
    return Input(cloud.uploads_bucket(voice_id), voice_id, generation, "audio/webm", 27_605)


async def send_upload_event(cloud: FaultyCloud, voice_id: str, generation: int) -> None:
    """Publish a notification of an upload, as a new message."""
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


async def test_a_conversion_that_ends_before_queued_is_recorded_stays_done(
    cloud: FaultyCloud,
) -> None:
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "published")

    await cloud.upload(voice_id)
    done = await cloud.ended(voice_id)
    cloud.barriers.release(voice_id, "published")

    await cloud.front.acknowledged(voice_id, "on_upload")
    assert await require_one_result(cloud, voice_id) == done
    assert cloud.barriers.notes(voice_id, "queued") == []


async def test_a_late_event_and_a_late_message_change_nothing(cloud: FaultyCloud) -> None:
    voice_id = await cloud.create_voice()
    generation = await cloud.upload(voice_id)
    done = await require_one_result(cloud, voice_id)

    await send_upload_event(cloud, voice_id, generation)
    await send_upload_event(cloud, voice_id, generation + 1)
    message = ConversionMessage(voice_id, the_upload(cloud, voice_id, generation))
    await cloud.publish(names.CONVERSIONS_TOPIC, message.encode(), {"voice_id": voice_id})

    await cloud.front.acknowledged(voice_id, "on_upload", messages=3)
    assert await require_one_result(cloud, voice_id, messages=2) == done
    assert len(cloud.barriers.notes(voice_id, "published")) == 1


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


async def test_a_voice_erased_while_it_is_converted_leaves_nothing(cloud: FaultyCloud) -> None:
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "before_done")
    await cloud.upload(voice_id)
    await cloud.barriers.arrival(voice_id, "before_done")

    await cloud.voices.delete(voice_id)
    cloud.barriers.release(voice_id, "before_done")

    await cloud.front.acknowledged(voice_id)
    assert await cloud.results(voice_id) == []
    with pytest.raises(UnknownVoiceError):
        await cloud.read(voice_id)


async def test_on_upload_killed_between_publishing_and_recording_loses_nothing(
    cloud: FaultyCloud,
) -> None:
    victim = await cloud.start_on_upload()
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "published")
    cloud.barriers.hold(voice_id, "before_leased")
    cloud.front.pin(voice_id, victim.url, service="on_upload")
    await cloud.upload(voice_id)
    await cloud.barriers.arrival(voice_id, "published")

    victim.process.send_signal(signal.SIGKILL)
    await victim.process.wait()
    cloud.barriers.release(voice_id, "published")
    await cloud.front.acknowledged(voice_id, "on_upload")
    cloud.barriers.release(voice_id, "before_leased")

    done = await require_one_result(cloud, voice_id, messages=2)
    assert done.attempt == 1
    assert len(cloud.barriers.notes(voice_id, "published")) == 2


async def test_a_message_that_cannot_be_published_is_published_later(cloud: FaultyCloud) -> None:
    async with Proxy(str(cloud.addresses.pubsub)) as pubsub:
        cut_off = await cloud.start_on_upload(PUBSUB_EMULATOR_HOST=pubsub.address)
        voice_id = await cloud.create_voice()
        cloud.barriers.hold(voice_id, "publishing")
        cloud.front.pin(voice_id, cut_off.url, service="on_upload")
        await cloud.upload(voice_id)
        await cloud.barriers.arrival(voice_id, "publishing")

        pubsub.refuse(True)
        pubsub.cut()
        cloud.barriers.release(voice_id, "publishing")
        await cloud.front.answered(voice_id, 503, "on_upload")

        await require_one_result(cloud, voice_id)
        await cloud.stop(cut_off)
    assert len(cloud.barriers.notes(voice_id, "published")) == 1
    first = next(cloud.front.about(voice_id, "on_upload"))
    assert first.status == 503
    assert (await cloud.read(voice_id)).status is Status.DONE
