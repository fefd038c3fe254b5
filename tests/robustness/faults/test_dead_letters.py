"""Messages that cannot be handled end their voice visibly and are kept for inspection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from infra.local.configuration import names
from shared.voices.messages import ConversionMessage
from shared.voices.voice import CONVERTED_WITHIN, ErrorCode, Input, Status, new_voice_id
from tests.robustness.faults.endings import require_one_failure, require_one_result

if TYPE_CHECKING:
    from tests.robustness.faults.cloud import FaultyCloud

pytestmark = [pytest.mark.emulators, pytest.mark.asyncio(loop_scope="session")]

DEAD = names.CONVERSIONS_TOPIC + names.DEAD_SUFFIX


def conversion_message(cloud: FaultyCloud, voice_id: str) -> bytes:
    upload = Input(cloud.uploads_bucket(voice_id), voice_id, 1, "audio/webm", 27_605)
    return ConversionMessage(voice_id, upload).encode()


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


async def test_the_results_of_all_attempts_are_deleted_when_a_voice_is_given_up(
    cloud: FaultyCloud,
) -> None:
    voice_id = await cloud.create_voice()
    cloud.barriers.fail(voice_id, "stored")
    await cloud.upload(voice_id)

    failed = await cloud.ended(voice_id)
    await cloud.front.acknowledged(voice_id, "dead_letter")

    assert (failed.status, failed.attempt) == (Status.FAILED, 5)
    assert len(cloud.barriers.notes(voice_id, "stored")) == 5
    assert await cloud.results(voice_id) == []


async def test_an_unreadable_message_is_kept_and_affects_no_voice(cloud: FaultyCloud) -> None:
    name, data = new_voice_id(), b"\x00 no JSON"
    await cloud.publish(names.CONVERSIONS_TOPIC, data, {"voice_id": name})
    voice_id = await cloud.create_voice()
    await cloud.upload(voice_id)

    await require_one_result(cloud, voice_id)
    await cloud.front.acknowledged(name, "dead_letter")
    assert {delivery.status for delivery in cloud.front.about(name)} == {422}
    assert await cloud.retained(DEAD, name) == [data]


async def test_a_dead_letter_delivered_twice_ends_its_voice_once(cloud: FaultyCloud) -> None:
    voice_id = await cloud.create_voice(age=CONVERTED_WITHIN)
    data, attributes = conversion_message(cloud, voice_id), {"voice_id": voice_id}

    await asyncio.gather(*(cloud.publish(DEAD, data, attributes) for _ in range(2)))
    failed = await cloud.ended(voice_id)
    await cloud.front.acknowledged(voice_id, "dead_letter", messages=2)
    await cloud.publish(names.CONVERSIONS_TOPIC, data, attributes)

    assert await require_one_failure(cloud, voice_id, ErrorCode.ATTEMPTS_EXHAUSTED) == failed
    assert failed.attempt == 0


async def test_a_dead_letter_does_not_end_a_voice_that_a_worker_has(cloud: FaultyCloud) -> None:
    voice_id = await cloud.create_voice()
    cloud.barriers.hold(voice_id, "converting")
    await cloud.upload(voice_id)
    await cloud.barriers.arrival(voice_id, "converting")

    await cloud.publish(DEAD, conversion_message(cloud, voice_id), {"voice_id": voice_id})
    await cloud.front.answered(voice_id, 503, "dead_letter")
    cloud.barriers.release(voice_id, "converting")

    done = await require_one_result(cloud, voice_id)
    await cloud.front.acknowledged(voice_id, "dead_letter")
    assert await cloud.read(voice_id) == done
