from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloud.memory import MemoryOwnCharacters, MemoryTopics, MemoryVoices, Subscription
from shared.voices.messages import PushMessage, parse_push
from tests.support.own_character_contract import OwnCharacterStoreContract
from tests.support.reachable import objects_kept_by
from tests.support.store_contract import VoiceStoreContract
from tests.support.virtual_time import in_virtual_time, settle
from tests.support.voices import NOW, a_waiting

if TYPE_CHECKING:
    from collections.abc import Mapping


class Endpoint:
    """Answers pushes with the given statuses in turn, then with 204."""

    def __init__(self, *answers: int | Exception | asyncio.Event) -> None:
        self._answers = list(answers)
        self.pushes: list[tuple[str, Mapping[str, Any]]] = []
        self.times: list[float] = []

    async def __call__(self, endpoint: str, envelope: Mapping[str, Any]) -> int:
        self.pushes.append((endpoint, envelope))
        self.times.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if self._answers else 204
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return 204
        return answer


def subscription(name: str = "s", topic: str = "t", dead: str | None = None) -> Subscription:
    return Subscription(
        name=f"projects/p/subscriptions/{name}",
        topic=topic,
        endpoint=f"http://{name}.test",
        acknowledgement_seconds=90,
        dead_letter_topic=dead,
        attempts=5,
    )


@in_virtual_time
async def test_a_message_is_pushed_to_every_subscription_of_its_topic() -> None:
    endpoint = Endpoint()
    topics = MemoryTopics(
        endpoint, (subscription("a"), subscription("b"), subscription("c", topic="other"))
    )

    await topics.publisher("t").publish(b"content", {"voice_id": "1"})
    await settle()

    assert [where for where, _ in endpoint.pushes] == ["http://a.test", "http://b.test"]
    await topics.aclose()


@in_virtual_time
async def test_a_push_has_the_form_of_pubsubs() -> None:
    endpoint = Endpoint()
    topics = MemoryTopics(endpoint, (subscription(),))

    await topics.publisher("t").publish(b"\x00\xff", {"a": "1"})
    await settle()

    envelope = endpoint.pushes[0][1]
    assert set(envelope["message"]) == {"data", "attributes", "messageId", "publishTime"}
    assert base64.b64decode(envelope["message"]["data"]) == b"\x00\xff"
    body = json.dumps(envelope).encode()
    assert parse_push(body) == PushMessage(
        b"\x00\xff",
        {"a": "1"},
        envelope["message"]["messageId"],
        "projects/p/subscriptions/s",
        envelope["message"]["publishTime"],
    )


@pytest.mark.parametrize("status", [102, 200, 201, 202, 204])
def test_only_these_answers_acknowledge(status: int) -> None:
    @in_virtual_time
    async def run() -> None:
        endpoint = Endpoint(status)
        topics = MemoryTopics(endpoint, (subscription(),))
        await topics.publisher("t").publish(b"x", {})
        await asyncio.sleep(1000)
        assert len(endpoint.pushes) == 1

    run()


@pytest.mark.parametrize("answer", [203, 302, 400, 404, 422, 429, 500, 503, OSError("refused")])
def test_every_other_answer_redelivers_the_message(answer: int | Exception) -> None:
    @in_virtual_time
    async def run() -> None:
        endpoint = Endpoint(answer, answer)
        topics = MemoryTopics(endpoint, (subscription(),))
        await topics.publisher("t").publish(b"x", {})
        await asyncio.sleep(1000)
        assert len(endpoint.pushes) == 3
        assert {push[1]["message"]["messageId"] for push in endpoint.pushes} == {"1"}

    run()


@in_virtual_time
async def test_the_pauses_double() -> None:
    endpoint = Endpoint(500, 500, 500, 500)
    topics = MemoryTopics(endpoint, (subscription(),))

    await topics.publisher("t").publish(b"x", {})
    await asyncio.sleep(1000)

    assert endpoint.times == [0, 1, 3, 7, 15]


async def publish(topics: MemoryTopics, topic: str, *contents: bytes) -> None:
    for content in contents:
        await topics.publisher(topic).publish(content, {})


@in_virtual_time
async def test_pushes_begin_slowly_and_the_end_of_one_makes_room_for_more() -> None:
    answered = [asyncio.Event() for _ in range(5)]
    endpoint = Endpoint(*answered)
    topics = MemoryTopics(endpoint, (subscription(),))

    await publish(topics, "t", *(b"%d" % number for number in range(8)))
    await asyncio.sleep(1)
    assert len(endpoint.pushes) == 5
    answered[2].set()
    await asyncio.sleep(1)

    pushed = [base64.b64decode(each["message"]["data"]) for _, each in endpoint.pushes]
    assert pushed == [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    await topics.aclose()


@in_virtual_time
async def test_negative_answers_stop_the_delivery_of_all_messages_of_the_subscription() -> None:
    """Fifty in ten seconds are five a second: Google delivers one message in half a minute then."""
    pushed: list[tuple[float, bytes]] = []

    async def deliver(endpoint: str, envelope: Mapping[str, Any]) -> int:
        del endpoint
        content = base64.b64decode(envelope["message"]["data"])
        pushed.append((asyncio.get_running_loop().time(), content))
        await asyncio.sleep(1)
        return 503 if content == b"refused" else 204

    topics = MemoryTopics(deliver, (subscription("a"), subscription("b", topic="other")))
    await publish(topics, "t", *[b"opens the window"] * 50)
    await asyncio.sleep(10)
    await publish(topics, "t", *[b"refused"] * 50)
    await asyncio.sleep(2)

    await publish(topics, "t", b"innocent")
    await publish(topics, "other", b"another subscription's")
    await asyncio.sleep(25)

    assert [each for each in pushed if each[0] > 11] == [(12, b"another subscription's")]
    await topics.aclose()


@in_virtual_time
async def test_an_answer_that_takes_too_long_is_none() -> None:
    endpoint = Endpoint(asyncio.Event())
    topics = MemoryTopics(endpoint, (subscription(),))

    await topics.publisher("t").publish(b"x", {})
    await asyncio.sleep(1000)

    assert endpoint.times == [0, 91]


@in_virtual_time
async def test_a_message_that_is_never_acknowledged_becomes_a_dead_letter() -> None:
    endpoint = Endpoint(*[500] * 5)
    topics = MemoryTopics(endpoint, (subscription(dead="dead"), subscription("d", topic="dead")))

    await topics.publisher("t").publish(b"x", {"a": "1"})
    await asyncio.sleep(1000)

    assert [where for where, _ in endpoint.pushes] == ["http://s.test"] * 5 + ["http://d.test"]
    assert endpoint.pushes[-1][1]["message"]["attributes"] == {
        "a": "1",
        "CloudPubSubDeadLetterSourceSubscription": "s",
    }
    assert topics.dead == []


@in_virtual_time
async def test_an_undelivered_dead_letter_is_kept() -> None:
    endpoint = Endpoint(*[500] * 10)
    topics = MemoryTopics(endpoint, (subscription(dead="dead"), subscription("d", topic="dead")))

    await topics.publisher("t").publish(b"x", {})
    await asyncio.sleep(1000)

    assert topics.dead == [("dead", b"x")]


@in_virtual_time
async def test_closing_ends_running_deliveries() -> None:
    endpoint = Endpoint(asyncio.Event(), 500)
    topics = MemoryTopics(endpoint, (subscription(),))
    publisher = topics.publisher("t")
    await publisher.publish(b"x", {})
    await publisher.publish(b"y", {})
    await settle()

    await topics.aclose()
    await publisher.aclose()
    await asyncio.sleep(1000)

    assert len(endpoint.pushes) == 2


@in_virtual_time
async def test_a_message_that_the_filter_leaves_out_is_not_pushed() -> None:
    endpoint = Endpoint()
    filtering = replace(subscription("a"), unless="overwroteGeneration")
    topics = MemoryTopics(endpoint, (filtering, subscription("b")))

    await topics.publisher("t").publish(b"new", {})
    await topics.publisher("t").publish(b"emptied", {"overwroteGeneration": "1"})
    await settle()

    pushed = [
        (where, parse_push(json.dumps(body).encode()).data) for where, body in endpoint.pushes
    ]
    assert filtering.filter == "NOT attributes:overwroteGeneration"
    assert pushed == [
        ("http://a.test", b"new"),
        ("http://b.test", b"new"),
        ("http://b.test", b"emptied"),
    ]
    await topics.aclose()


class TestMemoryVoices(VoiceStoreContract):
    @pytest.fixture
    def store(self) -> MemoryVoices:
        return MemoryVoices()


async def test_the_clock_is_the_one_that_was_handed_in() -> None:
    store = MemoryVoices(now=lambda: NOW)
    voice = a_waiting()
    await store.create(voice)

    assert (await store.read(voice.voice_id)).read_at == NOW
    await store.aclose()


async def test_a_watcher_that_stopped_is_forgotten() -> None:
    store = MemoryVoices()
    kept = objects_kept_by(store)
    for _ in range(20):
        async with store.watch(a_waiting().voice_id) as states:
            assert await anext(states) is None

    assert objects_kept_by(store) <= kept + 5


class TestMemoryOwnCharacters(OwnCharacterStoreContract):
    @pytest.fixture
    def store(self) -> MemoryOwnCharacters:
        return MemoryOwnCharacters()
