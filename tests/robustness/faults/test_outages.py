"""Firestore and Cloud Storage are unreachable at each step of a conversion."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.robustness.faults.endings import require_one_result
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from tests.robustness.faults.cloud import FaultyCloud, Instance

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

FIRESTORE_STEPS = ["before_leased", "reading", "converting", "stored", "before_done"]
STORAGE_STEPS = ["reading", "storing"]
ON_UPLOAD_STEPS = ["before_reading_document", "before_queued"]


async def hold_each(
    cloud: FaultyCloud, steps: Sequence[str], instance: Instance, service: str = "convert"
) -> dict[str, str]:
    """Send one voice to each step of an instance; return them by step."""
    voices = {step: await cloud.create_voice() for step in steps}
    for step, voice_id in voices.items():
        cloud.barriers.hold(voice_id, step)
        # The first delivery after the outage goes to the same instance: it must have recovered.
        cloud.front.pin(voice_id, instance.url, instance.url, service=service)
        await cloud.upload(voice_id)
        await cloud.barriers.arrival(voice_id, step)
    return voices


async def outage(
    cloud: FaultyCloud, proxy: Proxy, voices: Mapping[str, str], service: str = "convert"
) -> None:
    """Cut the connections until every voice's delivery was given up."""
    proxy.refuse(True)
    proxy.cut()
    for step, voice_id in voices.items():
        cloud.barriers.release(voice_id, step)
    await asyncio.gather(
        *(cloud.front.answered(voice_id, 503, service) for voice_id in voices.values())
    )
    proxy.refuse(False)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def after_firestore_outage(cloud: FaultyCloud) -> AsyncIterator[Mapping[str, str]]:
    async with Proxy(str(cloud.addresses.firestore)) as proxy:
        cut_off = await cloud.start_convert(FIRESTORE_EMULATOR_HOST=proxy.address)
        voices = await hold_each(cloud, FIRESTORE_STEPS, cut_off)
        await outage(cloud, proxy, voices)
        yield voices
        await cloud.stop(cut_off)


@pytest.mark.parametrize("step", FIRESTORE_STEPS)
async def test_a_conversion_survives_an_outage_of_firestore(
    cloud: FaultyCloud, after_firestore_outage: Mapping[str, str], step: str
) -> None:
    await require_one_result(cloud, after_firestore_outage[step])


async def test_a_short_outage_of_firestore_costs_no_attempt(cloud: FaultyCloud) -> None:
    async with Proxy(str(cloud.addresses.firestore)) as proxy:
        cut_off = await cloud.start_convert(FIRESTORE_EMULATOR_HOST=proxy.address)
        voices = await hold_each(cloud, ["before_done"], cut_off)
        proxy.refuse(True)
        proxy.cut()
        cloud.barriers.release(voices["before_done"], "before_done")
        await proxy.until_refused(1)
        proxy.refuse(False)

        done = await require_one_result(cloud, voices["before_done"])
        await cloud.stop(cut_off)
    assert done.attempt == 1


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def after_storage_outage(cloud: FaultyCloud) -> AsyncIterator[Mapping[str, str]]:
    async with Proxy(cloud.addresses.storage.removeprefix("http://")) as proxy:
        cut_off = await cloud.start_convert(STORAGE_EMULATOR_HOST=f"http://{proxy.address}")
        voices = await hold_each(cloud, STORAGE_STEPS, cut_off)
        await outage(cloud, proxy, voices)
        yield voices
        await cloud.stop(cut_off)


@pytest.mark.parametrize("step", STORAGE_STEPS)
async def test_a_conversion_survives_an_outage_of_cloud_storage(
    cloud: FaultyCloud, after_storage_outage: Mapping[str, str], step: str
) -> None:
    await require_one_result(cloud, after_storage_outage[step])


@pytest.mark.parametrize("step", ON_UPLOAD_STEPS)
async def test_an_upload_event_survives_an_outage_of_firestore(
    cloud: FaultyCloud, step: str
) -> None:
    async with Proxy(str(cloud.addresses.firestore)) as proxy:
        cut_off = await cloud.start_on_upload(FIRESTORE_EMULATOR_HOST=proxy.address)
        voices = await hold_each(cloud, [step], cut_off, "on_upload")
        await outage(cloud, proxy, voices, "on_upload")
        await require_one_result(cloud, voices[step])
        await cloud.stop(cut_off)
