"""Every `Publisher` keeps the contract, and Pub/Sub's reports a refusal."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

import pytest

from infra.local.cloud.memory import MemoryTopics, Subscription
from shared.google.pubsub import PubSubPublisher
from shared.voices.messages import parse_push
from shared.voices.voice import PublishError
from tests.support.messages import RecordingPublisher
from tests.support.publisher_contract import PublisherContract, Topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from google.api_core.retry import Retry
    from google.cloud.pubsub_v1.publisher import Client as PublisherClient

TOPIC = "projects/p/topics/t"


class FakePublisherClient:
    """The part of Pub/Sub's client that a publisher uses."""

    def __init__(self, outcome: Exception | None = None) -> None:
        self.outcome = outcome
        self.sent: list[tuple[str, bytes, Mapping[str, str]]] = []
        self.is_stopped = False

    def publish(
        self,
        topic: str,
        data: bytes,
        *,
        retry: Retry,
        timeout: float,
        **attributes: str,
    ) -> Future[str]:
        assert timeout > 0
        assert retry.timeout == timeout
        self.sent.append((topic, data, attributes))
        sending: Future[str] = Future()
        if self.outcome is None:
            sending.set_result("1")
        else:
            sending.set_exception(self.outcome)
        return sending

    def stop(self) -> None:
        self.is_stopped = True


class TestPubSubPublisher(PublisherContract):
    @pytest.fixture
    async def topic(self) -> AsyncIterator[Topic]:
        client = FakePublisherClient()

        async def receive() -> tuple[bytes, Mapping[str, str]]:
            name, data, attributes = client.sent.pop(0)
            assert name == TOPIC
            return data, attributes

        publisher = PubSubPublisher(lambda: cast("PublisherClient", client), TOPIC)
        yield Topic(publisher, receive)
        await publisher.aclose()
        assert client.is_stopped


class TestMemoryPublisher(PublisherContract):
    @pytest.fixture
    async def topic(self) -> AsyncIterator[Topic]:
        pushes: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

        async def deliver(endpoint: str, envelope: Mapping[str, Any]) -> int:
            assert endpoint == "http://s.test"
            pushes.put_nowait(envelope)
            return 204

        async def receive() -> tuple[bytes, Mapping[str, str]]:
            message = parse_push(json.dumps(await pushes.get()).encode())
            return message.data, message.attributes

        subscription = Subscription("projects/p/subscriptions/s", TOPIC, "http://s.test", 90)
        topics = MemoryTopics(deliver, (subscription,))
        yield Topic(topics.publisher(TOPIC), receive)
        await topics.aclose()


class TestRecordingPublisher(PublisherContract):
    @pytest.fixture
    def topic(self) -> Topic:
        publisher = RecordingPublisher()

        async def receive() -> tuple[bytes, Mapping[str, str]]:
            return publisher.published.pop(0)

        return Topic(publisher, receive)


async def test_a_message_that_was_not_accepted_raises_the_documented_error() -> None:
    client = FakePublisherClient(RuntimeError("down"))
    publisher = PubSubPublisher(lambda: cast("PublisherClient", client), TOPIC)

    with pytest.raises(PublishError, match="did not accept a message for projects/p/topics/t"):
        await publisher.publish(b"content", {})
