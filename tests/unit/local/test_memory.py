from __future__ import annotations

import asyncio
import base64
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloud.memory import MemoryOwnCharacters, MemoryTopics, MemoryVoices, Subscription
from infra.local.cloud.push_flow import FlowLimits, PushFlow
from shared.voices.messages import PushMessage, parse_push
from tests.support.own_character_contract import OwnCharacterStoreContract
from tests.support.store_contract import VoiceStoreContract
from tests.support.virtual_time import in_virtual_time, settle

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
async def test_a_message_in_pubsubs_form_goes_to_each_subscription_that_wants_it() -> None:
    endpoint = Endpoint()
    filtering = replace(subscription("a"), unless="overwroteGeneration")
    topics = MemoryTopics(
        endpoint, (filtering, subscription("b"), subscription("c", topic="other"))
    )

    await topics.publisher("t").publish(b"\x00\xff", {"a": "1"})
    await topics.publisher("t").publish(b"emptied", {"overwroteGeneration": "1"})
    await settle()

    pushed = [(where, parse_push(json.dumps(body).encode())) for where, body in endpoint.pushes]
    assert [(where, message.data) for where, message in pushed] == [
        ("http://a.test", b"\x00\xff"),
        ("http://b.test", b"\x00\xff"),
        ("http://b.test", b"emptied"),
    ]
    assert filtering.filter == "NOT attributes:overwroteGeneration"
    message = endpoint.pushes[0][1]["message"]
    assert set(message) == {"data", "attributes", "messageId", "publishTime"}
    name, published = "projects/p/subscriptions/a", message["publishTime"]
    assert pushed[0][1] == PushMessage(b"\x00\xff", {"a": "1"}, "1", name, published)
    await topics.aclose()


@pytest.mark.parametrize(
    ("answers", "times"),
    [
        *(([status], [0]) for status in (102, 200, 201, 202, 204)),
        *(([answer], [0, 1]) for answer in (203, 302, 400, 429, 503, OSError("refused"))),
        ([500] * 4, [0, 1, 3, 7, 15]),
    ],
)
def test_a_message_is_redelivered_after_growing_pauses_until_it_is_acknowledged(
    answers: list[int | Exception], times: list[float]
) -> None:
    @in_virtual_time
    async def run() -> None:
        endpoint = Endpoint(*answers)
        topics = MemoryTopics(endpoint, (subscription(),))
        await topics.publisher("t").publish(b"x", {})
        await asyncio.sleep(1000)
        assert endpoint.times == times
        assert {push[1]["message"]["messageId"] for push in endpoint.pushes} == {"1"}

    run()


async def publish(topics: MemoryTopics, topic: str, *contents: bytes) -> None:
    for content in contents:
        await topics.publisher(topic).publish(content, {})


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
async def test_a_message_that_is_never_acknowledged_becomes_a_dead_letter_which_is_kept() -> None:
    endpoint = Endpoint(*[500] * 10)
    topics = MemoryTopics(endpoint, (subscription(dead="dead"), subscription("d", topic="dead")))

    await topics.publisher("t").publish(b"x", {"a": "1"})
    await asyncio.sleep(1000)

    assert [where for where, _ in endpoint.pushes] == ["http://s.test"] * 5 + ["http://d.test"] * 5
    assert endpoint.pushes[-1][1]["message"]["attributes"] == {
        "a": "1",
        "CloudPubSubDeadLetterSourceSubscription": "s",
    }
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


class TestMemoryVoices(VoiceStoreContract):
    @pytest.fixture
    def store(self) -> MemoryVoices:
        return MemoryVoices()


class TestMemoryOwnCharacters(OwnCharacterStoreContract):
    @pytest.fixture
    def store(self) -> MemoryOwnCharacters:
        return MemoryOwnCharacters()


def begin_all(flow: PushFlow, now: float) -> int:
    begun = 0
    while flow.begin(now) == 0:
        begun += 1
    return begun


def test_the_window_begins_small_and_doubles_with_success() -> None:
    flow = PushFlow()
    for now, width in enumerate((5, 10, 20, 40)):
        assert begin_all(flow, now) == width
        assert flow.begin(now) == math.inf
        for _ in range(width):
            flow.end(now, acknowledged=True)


@pytest.mark.parametrize(
    ("refusals", "least", "most"),
    [(0, 0, 0), (1, 0.1, 0.2), (10, 0.4, 0.6), (50, 30, 60), (99, 60, 60)],
)
def test_negative_answers_of_ten_seconds_stop_deliveries_for_as_long_as_google_says(
    refusals: int, least: float, most: float
) -> None:
    flow = PushFlow(FlowLimits(first_window=100))
    begun = begin_all(flow, 0)
    for _ in range(refusals):
        flow.end(0, acknowledged=False)

    assert begun == 100
    assert least <= flow.backoff(0) <= most
    assert flow.backoff(10.1) == 0


def test_during_a_backoff_deliveries_come_one_at_a_time() -> None:
    flow = PushFlow()
    for _ in range(4):
        flow.begin(0)
    for _ in range(3):
        flow.end(0, acknowledged=False)
    pause = flow.backoff(0)

    assert flow.begin(0) == pause
    assert flow.begin(pause) == 0
    assert flow.begin(pause) == pytest.approx(pause)
    assert (flow.outstanding, flow.refused) == (2, 3)
