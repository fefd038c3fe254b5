"""Conversion containers that are killed, frozen or told to stop in the middle of their work."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from shared.voices.voice import Status
from tests.robustness.faults.endings import require_one_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from shared.voices.voice import Voice
    from tests.robustness.faults.cloud import FaultyCloud

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

STAGES = ["leased", "reading", "decoding", "converting", "stored", "before_done", "done"]
TAKEOVER = timedelta(seconds=10)


@dataclass(frozen=True)
class KilledContainer:
    """When a container was killed, and its voices as it left them, by the stage they were in."""

    at: datetime
    left: Mapping[str, tuple[str, Voice]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def killed(cloud: FaultyCloud) -> AsyncIterator[KilledContainer]:
    """Return a voice for each stage, and the state in which a killed container left it."""
    victim = await cloud.start_convert(CONCURRENCY=str(len(STAGES)))
    voices = {stage: await cloud.create_voice() for stage in STAGES}
    for stage, voice_id in voices.items():
        cloud.barriers.hold(voice_id, stage)
        cloud.front.pin(voice_id, victim.url)
        await cloud.upload(voice_id)
    for stage, voice_id in voices.items():
        await cloud.barriers.arrival(voice_id, stage)

    victim.process.send_signal(signal.SIGKILL)
    await victim.process.wait()
    killed_at = datetime.now(UTC)

    left = {stage: (voice_id, await cloud.read(voice_id)) for stage, voice_id in voices.items()}
    for stage, voice_id in voices.items():
        cloud.barriers.release(voice_id, stage)
    yield KilledContainer(killed_at, left)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_killed_containers_voice_is_taken_over_when_its_lease_ends_and_gets_one_result(
    cloud: FaultyCloud, killed: KilledContainer, stage: str
) -> None:
    voice_id, left = killed.left[stage]

    done = await require_one_result(cloud, voice_id)

    if stage == "done":
        assert left == done
        return
    assert left.status is Status.CONVERTING
    assert (left.attempt, done.attempt) == (1, 2)
    assert left.lease_expires_at is not None
    taken_over_at = datetime.fromisoformat(cloud.barriers.notes(voice_id, "leased")[1])
    assert left.lease_expires_at <= taken_over_at <= killed.at + TAKEOVER
