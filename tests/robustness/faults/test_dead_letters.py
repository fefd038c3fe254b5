"""Messages that cannot be handled end their voice visibly and are kept for inspection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.local.configuration import names
from shared.voices.voice import ErrorCode, Status, new_voice_id
from tests.robustness.faults.endings import require_one_result

if TYPE_CHECKING:
    from tests.robustness.faults.cloud import FaultyCloud

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

DEAD = names.CONVERSIONS_TOPIC + names.DEAD_SUFFIX


async def test_a_voice_that_fails_every_attempt_is_given_up(cloud: FaultyCloud) -> None:
    voice_id, other = await cloud.create_voice(), await cloud.create_voice()
    cloud.barriers.fail(voice_id, "converting")
    await cloud.upload(voice_id)
    await cloud.upload(other)

    await require_one_result(cloud, other)
    failed = await cloud.ended(voice_id)

    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error.code is ErrorCode.ATTEMPTS_EXHAUSTED
    assert failed.attempt == 5
    assert await cloud.results(voice_id) == []
    await cloud.front.acknowledged(voice_id, "dead_letter")
    (retained,) = await cloud.retained(DEAD, voice_id)
    assert f'"voice_id":"{voice_id}"'.encode() in retained


async def test_an_unreadable_message_is_kept_and_affects_no_voice(cloud: FaultyCloud) -> None:
    name, data = new_voice_id(), b"\x00 no JSON"
    await cloud.publish(names.CONVERSIONS_TOPIC, data, {"voice_id": name})
    voice_id = await cloud.create_voice()
    await cloud.upload(voice_id)

    await require_one_result(cloud, voice_id)
    await cloud.front.acknowledged(name, "dead_letter")
    assert {delivery.status for delivery in cloud.front.about(name)} == {422}
    assert await cloud.retained(DEAD, name) == [data]
