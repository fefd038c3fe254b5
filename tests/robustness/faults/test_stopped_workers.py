"""Conversion containers that get SIGTERM, freeze, continue late or never finish."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from infra.local.configuration import names
from shared.voices.messages import ConversionMessage
from shared.voices.voice import ErrorCode, Status
from tests.robustness.faults.endings import require_one_failure, require_one_result

if TYPE_CHECKING:
    from tests.robustness.faults.cloud import FaultyCloud, Instance

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]


async def send_conversion_message(cloud: FaultyCloud, voice_id: str) -> None:
    """Publish the conversion message of a voice again, as a new message."""
    upload = (await cloud.read(voice_id)).input
    assert upload is not None
    message = ConversionMessage(voice_id, upload)
    await cloud.publish(names.CONVERSIONS_TOPIC, message.encode(), {"voice_id": voice_id})


async def test_a_stopping_container_releases_its_voices_at_once(cloud: FaultyCloud) -> None:
    stopping = await cloud.start_convert()
    stages = ["reading", "decoding", "converting", "storing"]
    voices = {stage: await cloud.create_voice() for stage in stages}
    for stage, voice_id in voices.items():
        cloud.barriers.hold(voice_id, stage)
        cloud.front.pin(voice_id, stopping.url)
        await cloud.upload(voice_id)
        await cloud.barriers.arrival(voice_id, stage)
    leases = {voice_id: (await cloud.read(voice_id)) for voice_id in voices.values()}

    stopping.process.send_signal(signal.SIGTERM)
    for voice_id in voices.values():
        await cloud.front.answered(voice_id, 503)
    for stage, voice_id in voices.items():
        cloud.barriers.release(voice_id, stage)

    assert await stopping.process.wait() == 0
    for voice_id, held in leases.items():
        done = await require_one_result(cloud, voice_id)
        assert done.attempt == 2
        taken_over_at = datetime.fromisoformat(cloud.barriers.notes(voice_id, "leased")[1])
        assert held.lease_expires_at is not None
        assert taken_over_at < held.lease_expires_at


async def test_a_frozen_container_commits_nothing_when_it_continues(
    cloud: FaultyCloud,
) -> None:
    frozen = await cloud.start_convert()
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "converting")
    cloud.front.pin(voice_id, frozen.url)
    await cloud.upload(voice_id)
    await cloud.barriers.arrival(voice_id, "converting")
    frozen.process.send_signal(signal.SIGSTOP)
    cloud.barriers.release(voice_id, "converting")

    await send_conversion_message(cloud, voice_id)
    done = await cloud.ended(voice_id)
    frozen.process.send_signal(signal.SIGCONT)

    assert await require_one_result(cloud, voice_id, messages=2) == done
    assert done.attempt == 2
    await cloud.stop(frozen)
    assert '"event": "lease_lost"' in await frozen.log()


async def test_a_commit_after_the_lease_was_lost_is_refused(cloud: FaultyCloud) -> None:
    late = await cloud.start_convert()
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "before_done")
    cloud.front.pin(voice_id, late.url)
    await cloud.upload(voice_id)
    await cloud.barriers.arrival(voice_id, "before_done")

    # The late container holds its own writes up, so its lease ends although it lives.
    await send_conversion_message(cloud, voice_id)
    await cloud.barriers.arrival(voice_id, "before_done", times=2)
    stored = await cloud.results(voice_id)
    cloud.barriers.release(voice_id, "before_done")

    done = await require_one_result(cloud, voice_id, messages=2)
    assert stored == [f"{voice_id}/1.wav", f"{voice_id}/2.wav"]
    assert done.attempt == 2
    assert done.result is not None
    assert done.result.object == f"{voice_id}/2.wav"
    await cloud.stop(late)
    assert '"event": "lease_lost"' in await late.log()


async def test_a_conversion_that_never_returns_ends_at_its_deadline(cloud: FaultyCloud) -> None:
    stuck = await cloud.start_convert(CONVERSION_DEADLINE_SECONDS="5")
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "converting")
    cloud.front.pin(voice_id, stuck.url)
    await cloud.upload(voice_id)

    failed = await cloud.ended(voice_id)

    assert failed.status is Status.FAILED
    await require_one_failure(cloud, voice_id, ErrorCode.DEADLINE_EXCEEDED)
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.get(stuck.url.replace("/push", "/healthz"))
    assert answer.status_code == 503, "the probe must have the container replaced"
    stuck.process.send_signal(signal.SIGKILL)
    await stuck.process.wait()
    cloud.barriers.release(voice_id, "converting")


async def test_workers_whose_clocks_differ_by_two_minutes_agree_on_a_lease(
    cloud: FaultyCloud,
) -> None:
    fast, slow = await asyncio.gather(
        cloud.start_convert(CLOCK_SKEW_SECONDS="60"), cloud.start_convert(CLOCK_SKEW_SECONDS="-60")
    )
    voices = [await cloud.create_voice() for _ in range(2)]
    for voice_id, first, second in zip(voices, (fast, slow), (slow, fast), strict=True):
        cloud.barriers.hold(voice_id, "converting")
        cloud.front.pin(voice_id, first.url, second.url)
        await cloud.upload(voice_id)
        await cloud.barriers.arrival(voice_id, "converting")
        await send_conversion_message(cloud, voice_id)

    for voice_id in voices:
        # The other worker has waited for the lease's end and found it renewed.
        await cloud.front.answered(voice_id, 503)
        cloud.barriers.release(voice_id, "converting")
        done = await require_one_result(cloud, voice_id, messages=2)
        assert done.attempt == 1
    await asyncio.gather(cloud.stop(fast), cloud.stop(slow))
    assert await first_entry_at(fast) - await first_entry_at(slow) > timedelta(seconds=60)


async def first_entry_at(instance: Instance) -> datetime:
    """Return the time of a log's first entry, by the instance's own clock."""
    entry = json.loads((await instance.log()).partition("\n")[0])
    return datetime.fromisoformat(entry["time"])
