"""One of a container's several processes hangs: it is replaced, and the others continue."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from tests.robustness.faults.endings import require_one_result
from tests.support.heartbeats import let_have_been_silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.robustness.faults.cloud import FaultyCloud, Instance

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

PROCESSES = 3
DELIVERIES = 20
TIMEOUT = 300
PATIENCE_SECONDS = 60.0


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.02)


def processes(several: Instance) -> set[int]:
    return {child.pid for child in psutil.Process(several.process.pid).children()}


def ready(several: Instance) -> int:
    """How many of a container's processes have started to serve."""
    return several.process.log.read_text().count('"event": "instance_started"')


async def upload_for(cloud: FaultyCloud, several: Instance, *, held_at: str | None = None) -> str:
    """Send a recording whose deliveries all go to one container."""
    voice_id = await cloud.create_voice()
    if held_at is not None:
        cloud.barriers.hold(voice_id, held_at)
    cloud.front.pin(voice_id, *[several.url] * DELIVERIES)
    await cloud.upload(voice_id)
    return voice_id


async def held_process(cloud: FaultyCloud, voice_id: str, point: str) -> int:
    await cloud.barriers.arrival(voice_id, point)
    return cloud.barriers.pids(voice_id, point)[0]


async def test_hung_processes_are_replaced_and_their_neighbour_converts_meanwhile(
    cloud: FaultyCloud,
) -> None:
    several = await cloud.start_convert(WORKERS=str(PROCESSES), TIMEOUT=str(TIMEOUT))
    await until(lambda: ready(several) == PROCESSES)

    looping = await upload_for(cloud, several, held_at="standing_still")
    hung = {await held_process(cloud, looping, "standing_still")}
    stopped = await upload_for(cloud, several, held_at="converting")
    hung |= {await held_process(cloud, stopped, "converting")}
    frozen = psutil.Process(cloud.barriers.pids(stopped, "converting")[0])
    frozen.send_signal(signal.SIGSTOP)
    await until(lambda: frozen.status() == psutil.STATUS_STOPPED)
    (neighbour,) = processes(several) - hung

    other = await upload_for(cloud, several)
    done = await require_one_result(cloud, other)
    async with httpx.AsyncClient() as client:
        readiness = await client.get(several.url.replace("/push", "/readyz"))

    assert done.attempt == 1
    assert cloud.barriers.pids(other, "done") == [neighbour]
    assert readiness.status_code == httpx.codes.NO_CONTENT
    for each in hung:
        let_have_been_silent(each, seconds=TIMEOUT + 1)
    await until(lambda: ready(several) == PROCESSES + len(hung))
    assert neighbour in processes(several)
    assert not hung & processes(several)
    for voice_id, point in ((looping, "standing_still"), (stopped, "converting")):
        cloud.barriers.release(voice_id, point)
        assert (await require_one_result(cloud, voice_id)).attempt == 2
        assert set(cloud.barriers.pids(voice_id, "done")) <= processes(several)
    await cloud.stop(several)
    log = await several.log()
    assert log.count("WORKER TIMEOUT") >= len(hung)
    assert "Fatal Python error: Aborted" in log
    assert "in reach" in log
