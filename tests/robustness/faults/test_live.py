"""Recordings that come over a WebSocket: killed and stopping instances, and two ways at once."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio
from google.api_core.exceptions import PreconditionFailed

from infra.local.commands.live import LiveVisitor
from shared.voices.voice import Status
from tests.integration.served import SAMPLE
from tests.robustness.faults.endings import require_one_result
from tests.support.sound_files import frames_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from shared.voices.voice import Voice
    from tests.robustness.faults.cloud import FaultyCloud, Instance

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

RECORDING = SAMPLE.read_bytes()
OVER = ["done", "emptying"]
STAGES = ["storing_recording", "recording_stored", "leased", "stored", "before_done", *OVER]
STORED_AT = frozenset(STAGES) - {"storing_recording"}


async def fall_back(cloud: FaultyCloud, voice_id: str) -> bool:
    """Upload the recording, as a page does whose connection broke; return whether it was stored."""
    try:
        await cloud.upload(voice_id)
    except PreconditionFailed:
        return False
    return True


async def require_one_live_result(
    cloud: FaultyCloud, voice_id: str, *, requested: bool | None = None
) -> tuple[Voice, str]:
    """Require that a voice is done, once; return it and the digest of its result.

    Args:
        requested: whether on_upload must have requested a conversion; None if it may have.
    """
    await cloud.ended(voice_id)
    await cloud.front.acknowledged(voice_id, "on_upload")
    # Whoever handles one of these messages is the last to tidy up, also where `live` was faster.
    messages = len(cloud.barriers.notes(voice_id, "published"))
    assert requested in {None, messages > 0}
    done = await require_one_result(cloud, voice_id, messages=messages)
    assert done.result is not None
    return done, done.result.sha256


def found_url(done: Voice) -> str:
    assert done.result is not None
    return done.result.url


@dataclass(frozen=True)
class KilledLive:
    """What a killed instance left of a voice, and what its client had received."""

    voice_id: str
    left: Voice
    client: LiveVisitor
    had_to_upload: bool


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def killed(cloud: FaultyCloud) -> AsyncIterator[Mapping[str, KilledLive]]:
    """Return a voice for each stage at which its instance was killed."""
    victim = await cloud.start_live(CONCURRENCY=str(len(STAGES)))
    voices = {stage: await cloud.create_voice() for stage in STAGES}
    async with AsyncExitStack() as stack:
        clients = {}
        for stage, voice_id in voices.items():
            cloud.barriers.hold(voice_id, stage)
            client = LiveVisitor(victim.url, cloud.ticket(voice_id))
            clients[stage] = await stack.enter_async_context(client)
            await client.speak(RECORDING)
        for stage, voice_id in voices.items():
            await cloud.barriers.arrival(voice_id, stage)
        victim.process.send_signal(signal.SIGKILL)
        await victim.process.wait()
        ends = {stage: await client.end() for stage, client in clients.items()}
    # The client does not wait for the recording to be emptied.
    assert [stage for stage, told in ends.items() if told] == ["emptying"]
    left = {voice_id: await cloud.read(voice_id) for voice_id in voices.values()}
    for stage, voice_id in voices.items():
        cloud.barriers.release(voice_id, stage)
    yield {
        stage: KilledLive(
            voice_id, left[voice_id], clients[stage], await fall_back(cloud, voice_id)
        )
        for stage, voice_id in voices.items()
    }


@pytest.mark.parametrize("stage", STAGES)
async def test_a_voice_whose_instance_is_killed_gets_exactly_one_result(
    cloud: FaultyCloud, killed: Mapping[str, KilledLive], stage: str
) -> None:
    found = killed[stage]
    requested = stage not in OVER
    done, digest = await require_one_live_result(cloud, found.voice_id, requested=requested)

    assert found.had_to_upload is (stage not in STORED_AT)
    if stage in OVER:
        # Its recording is emptied by the event, which comes again.
        assert found.left == done
    elif stage in {"storing_recording", "recording_stored"}:
        assert done.attempt == 1
    else:
        assert (found.left.status, done.attempt) == (Status.CONVERTING, 2)
    if stage in {"stored", "before_done", *OVER}:
        # The client had heard the result already: the container has made the same sound again. The
        # file differs, because the signed statement in it says when it was made.
        async with httpx.AsyncClient() as web:
            stored = await web.get(found_url(done))
        assert hashlib.sha256(stored.content).hexdigest() == digest
        assert frames_of(found.client.sound) == frames_of(stored.content)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(cloud: FaultyCloud) -> Instance:
    return await cloud.start_live(GRACEFUL_TIMEOUT="4")


async def speak(cloud: FaultyCloud, live: Instance, voice_id: str) -> dict[str, Any] | None:
    async with LiveVisitor(live.url, cloud.ticket(voice_id)) as client:
        await client.speak(RECORDING)
        return await client.end()


async def test_a_connection_and_an_upload_of_the_same_recording_give_one_result(
    cloud: FaultyCloud, live: Instance
) -> None:
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "storing_recording")
    speaking = asyncio.create_task(speak(cloud, live, voice_id))
    await cloud.barriers.arrival(voice_id, "storing_recording")
    await cloud.upload(voice_id)
    cloud.barriers.release(voice_id, "storing_recording")
    told = await speaking

    await require_one_live_result(cloud, voice_id)
    assert told is not None
    assert told["type"] == "done" or told["stored"]


async def test_an_instance_that_stops_ends_what_it_can_and_hands_the_rest_back(
    cloud: FaultyCloud, live: Instance
) -> None:
    recorded, held, ending = [await cloud.create_voice() for _ in range(3)]
    cloud.barriers.hold(held, "before_done")
    cloud.barriers.hold(ending, "storing")
    async with LiveVisitor(live.url, cloud.ticket(recorded)) as speaking:
        await speaking.start()
        await speaking.send(RECORDING[:1000])
        waiting = [asyncio.create_task(speak(cloud, live, each)) for each in (held, ending)]
        await cloud.barriers.arrival(held, "before_done")
        await cloud.barriers.arrival(ending, "storing")

        live.process.send_signal(signal.SIGTERM)
        assert await speaking.end() is None
        assert speaking.close == (1012, "restarting")
    cloud.barriers.release(ending, "storing")
    told_held, told_ending = await asyncio.gather(*waiting)
    assert await live.process.wait() == 0
    cloud.barriers.release(held, "before_done")

    assert told_held == {"type": "retry", "reason": "restarting", "stored": True}
    assert told_ending is not None
    assert told_ending["type"] == "done"
    assert await fall_back(cloud, recorded)
    assert (await require_one_live_result(cloud, recorded, requested=True))[0].attempt == 1
    assert (await require_one_live_result(cloud, held, requested=True))[0].attempt == 2
    assert (await require_one_live_result(cloud, ending))[0].attempt == 1
