"""Conversion containers that get SIGTERM, freeze, continue late or never finish."""

from __future__ import annotations

import signal
from datetime import datetime
from typing import TYPE_CHECKING

import httpx
import pytest

from infra.local.configuration import names
from shared.voices.messages import ConversionMessage
from shared.voices.voice import ErrorCode, Status
from tests.robustness.faults.endings import require_one_failure, require_one_result

if TYPE_CHECKING:
    from tests.robustness.faults.cloud import FaultyCloud

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
