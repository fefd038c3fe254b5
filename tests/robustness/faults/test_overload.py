"""More work than the containers can take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.robustness.faults.cloud import DELIVERIES
from tests.robustness.faults.endings import require_one_result

if TYPE_CHECKING:
    from tests.robustness.faults.cloud import FaultyCloud

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]


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
