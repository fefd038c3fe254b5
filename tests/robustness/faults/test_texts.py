"""Voices that are made from a text, when something fails."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from shared.voices.store import UnknownVoiceError
from shared.voices.voice import ErrorCode, Status
from tests.robustness.faults.endings import require_one_failure, require_one_result

if TYPE_CHECKING:
    from tests.robustness.faults.cloud import FaultyCloud

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

TEXT = "こんにちは。"


async def test_a_text_whose_container_is_killed_gets_exactly_one_result(
    cloud: FaultyCloud,
) -> None:
    victim = await cloud.start_convert()
    voice_id = await cloud.create_text_voice()
    cloud.barriers.hold(voice_id, "stored")
    cloud.front.pin(voice_id, victim.url)
    await cloud.request_text(voice_id, TEXT)
    await cloud.barriers.arrival(voice_id, "stored")

    victim.process.send_signal(signal.SIGKILL)
    await victim.process.wait()
    cloud.barriers.release(voice_id, "stored")

    done = await require_one_result(cloud, voice_id)
    assert done.attempt == 2


async def test_the_message_of_a_text_that_comes_twice_makes_one_result(cloud: FaultyCloud) -> None:
    voice_id = await cloud.create_text_voice()
    cloud.barriers.hold(voice_id, "before_leased")

    upload = await cloud.request_text(voice_id, TEXT)
    await cloud.request_conversion(voice_id, upload)
    await cloud.barriers.arrival(voice_id, "before_leased", times=2)
    cloud.barriers.release(voice_id, "before_leased")

    done = await require_one_result(cloud, voice_id, messages=2)
    assert done.attempt == 1
    assert len(cloud.barriers.notes(voice_id, "done")) == 1
    # The event of the text asks for nothing: the api does.
    assert cloud.barriers.notes(voice_id, "published") == []


async def test_a_text_that_is_deleted_on_the_way_leaves_nothing(cloud: FaultyCloud) -> None:
    erased, missing = await asyncio.gather(cloud.create_text_voice(), cloud.create_text_voice())
    cloud.barriers.hold(erased, "before_done")
    cloud.barriers.hold(missing, "reading")
    await asyncio.gather(cloud.request_text(erased, TEXT), cloud.request_text(missing, TEXT))
    await cloud.barriers.arrival(erased, "before_done")
    await cloud.barriers.arrival(missing, "reading")

    await cloud.voices.delete(erased)
    await cloud.delete_upload(missing)
    cloud.barriers.release(erased, "before_done")
    cloud.barriers.release(missing, "reading")

    await cloud.front.acknowledged(erased)
    assert await cloud.results(erased) == []
    with pytest.raises(UnknownVoiceError):
        await cloud.read(erased)
    failed = await require_one_failure(cloud, missing, ErrorCode.SOURCE_MISSING)
    assert (failed.status, failed.error and failed.error.message) == (
        Status.FAILED,
        "The text is gone; please send it again.",
    )
