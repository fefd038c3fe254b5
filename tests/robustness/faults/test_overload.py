"""More work than the containers can take, and clients that send too many requests."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import httpx
import pytest
import pytest_asyncio

from shared.voices.voice import new_voice_id
from tests.robustness.faults.cloud import DELIVERIES
from tests.robustness.faults.endings import require_one_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.robustness.faults.cloud import FaultyCloud, Instance

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

AT_ONCE = 3
PER_MINUTE = 12 * AT_ONCE


async def test_a_full_container_refuses_messages_at_once_and_loses_none(
    cloud: FaultyCloud,
) -> None:
    small = await cloud.start_convert(CONCURRENCY="1", BACKLOG="1")
    converting, waiting, sent_away = [await cloud.create_voice() for _ in range(3)]
    cloud.barriers.hold(converting, "converting")
    for voice_id, point in ((converting, "converting"), (waiting, "leased")):
        cloud.front.pin(voice_id, small.url)
        await cloud.upload(voice_id)
        await cloud.barriers.arrival(voice_id, point)

    cloud.front.pin(sent_away, small.url)
    await cloud.upload(sent_away)
    await cloud.front.answered(sent_away, 429)
    # Another container has taken it, while the small one still has as much as it can hold.
    elsewhere = await require_one_result(cloud, sent_away)
    assert cloud.barriers.notes(waiting, "converting") == []
    cloud.barriers.release(converting, "converting")

    assert elsewhere.attempt == 1
    for voice_id in (converting, waiting):
        assert (await require_one_result(cloud, voice_id)).attempt == 1
    await cloud.stop(small)
    assert '"event": "overloaded"' in await small.log()


async def test_a_voice_for_which_there_was_no_room_for_long_is_late_and_not_failed(
    cloud: FaultyCloud,
) -> None:
    full = await cloud.start_convert(CONCURRENCY="1", BACKLOG="0")
    converting, sent_away = await cloud.create_voice(), await cloud.create_voice()
    cloud.barriers.hold(converting, "converting")
    cloud.front.pin(converting, full.url)
    await cloud.upload(converting)
    await cloud.barriers.arrival(converting, "converting")

    # More often than a message is delivered: it becomes a dead letter, which puts the voice back.
    cloud.front.pin(sent_away, *[full.url] * (DELIVERIES + 2))
    await cloud.upload(sent_away)

    late = await cloud.ended(sent_away)
    await cloud.front.acknowledged(sent_away, "dead_letter")
    assert late.result is not None
    assert (late.attempt, await cloud.results(sent_away)) == (1, [late.result.object])
    cloud.barriers.release(converting, "converting")
    await require_one_result(cloud, converting)
    await cloud.stop(full)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(cloud: FaultyCloud) -> AsyncIterator[Instance]:
    running = await cloud.start_function(
        "api", RATE_LIMIT_PER_MINUTE=str(PER_MINUTE), TRUSTED_PROXIES="1", WAITING_PER_CLIENT="1"
    )
    yield running
    await cloud.stop(running)


def as_cloud_run_passes_on(client: str, claimed: str = "10.0.0.1") -> dict[str, str]:
    """Return the headers of a request of a client that claims to be another."""
    return {"X-Forwarded-For": f"{claimed}, {client}"}


async def test_only_the_client_that_asks_too_often_is_refused(api: Instance) -> None:
    url = f"{api.url}api/v1/voices"
    async with httpx.AsyncClient(timeout=60) as client:
        # No creations: those wait a little for their turn. All at once, because the allowance grows
        # again while they are answered.
        answers = await asyncio.gather(
            *(
                client.delete(
                    f"{url}/{new_voice_id()}",
                    headers=as_cloud_run_passes_on("203.0.113.1", f"10.0.0.{n}"),
                )
                for n in range(10 * AT_ONCE)
            )
        )
        other = await client.post(url, headers=as_cloud_run_passes_on("203.0.113.2"))

    assert {answer.status_code for answer in answers} == {404, 429}
    assert sum(answer.status_code == 404 for answer in answers) >= AT_ONCE
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["code"] == "rate_limited"
    assert 0 < int(refused.headers["retry-after"]) <= math.ceil(60 / PER_MINUTE)
    assert other.status_code == 201


async def test_a_client_with_too_many_waiting_connections_gets_no_other(
    cloud: FaultyCloud, api: Instance
) -> None:
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "converting")
    await cloud.upload(voice_id)
    await cloud.barriers.arrival(voice_id, "converting")
    url, headers = f"{api.url}api/v1/conversion/{voice_id}", as_cloud_run_passes_on("203.0.113.3")
    async with httpx.AsyncClient(timeout=60) as client:
        first, second = (asyncio.create_task(client.get(url, headers=headers)) for _ in range(2))
        # Whichever of the two came later is refused while the other one waits.
        done, waiting = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
        refused, waits = done.pop().result(), waiting.pop()
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        cloud.barriers.release(voice_id, "converting")
        served = await waits

    assert served.status_code == 200
    await require_one_result(cloud, voice_id)
