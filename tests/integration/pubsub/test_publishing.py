"""Publishing and pushing through Google's Pub/Sub emulator."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from google.cloud.pubsub_v1 import PublisherClient
from google.cloud.pubsub_v1.types import BatchSettings

from infra.local.cloud import provisioning
from infra.local.cloud.memory import Subscription
from infra.local.configuration import names
from infra.local.configuration.environments import choose_addresses
from infra.local.configuration.names import Ports
from infra.local.configuration.options import CloudOptions
from shared.google.pubsub import PubSubPublisher
from shared.ports import NoTokenNeeded
from shared.runtime.push import push_app
from shared.runtime.settings import Timeouts
from shared.voices.store import StoreUnavailableError
from tests.support.asgi_server import served as serving
from tests.support.publisher_contract import PublisherContract, Topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from shared.voices.messages import PushMessage

pytestmark = pytest.mark.emulators


class Receiver:
    """Keeps pushed messages; fails a given number of times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures_left = failures
        self.messages: asyncio.Queue[PushMessage] = asyncio.Queue()

    async def __call__(self, message: PushMessage) -> None:
        self.messages.put_nowait(message)
        if self.failures_left:
            self.failures_left -= 1
            raise StoreUnavailableError("not now")


@asynccontextmanager
async def served(receiver: Receiver) -> AsyncIterator[str]:
    """Serve a receiver of pushes; its address."""
    async with serving(push_app(NoTokenNeeded(), receiver)) as port:
        yield f"http://127.0.0.1:{port}/"


def a_subscription(endpoint: str) -> Subscription:
    name = f"t-{uuid4().hex}"
    return Subscription(
        name=names.subscription_path(f"{name}-push"),
        topic=names.topic_path(name),
        endpoint=endpoint,
        acknowledgement_seconds=10,
        first_backoff_seconds=0.1,
        longest_backoff_seconds=0.2,
    )


async def subscribe(emulator: str, *subscriptions: Subscription) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        await provisioning.make_subscriptions(client, f"http://{emulator}", subscriptions)


@pytest_asyncio.fixture
async def publisher_client(
    pubsub_emulator: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PublisherClient]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub_emulator)
    client = PublisherClient(BatchSettings(max_latency=0))
    yield client
    client.transport.close()


class TestPubSubPublisher(PublisherContract):
    @pytest_asyncio.fixture
    async def topic(
        self, pubsub_emulator: str, publisher_client: PublisherClient
    ) -> AsyncIterator[Topic]:
        receiver = Receiver()

        async def receive() -> tuple[bytes, Mapping[str, str]]:
            message = await receiver.messages.get()
            return message.data, message.attributes

        async with served(receiver) as url:
            subscription = a_subscription(url)
            await subscribe(pubsub_emulator, subscription)
            publisher = PubSubPublisher(lambda: publisher_client, subscription.topic)
            yield Topic(publisher, receive)
            await publisher.aclose()


async def test_a_message_that_is_not_acknowledged_is_pushed_again(
    pubsub_emulator: str, publisher_client: PublisherClient
) -> None:
    receiver = Receiver(failures=2)
    async with served(receiver) as url:
        subscription = a_subscription(url)
        await subscribe(pubsub_emulator, subscription)
        publisher = PubSubPublisher(lambda: publisher_client, subscription.topic)

        await publisher.publish(b"content", {})
        messages = [await receiver.messages.get() for _ in range(3)]
        await publisher.aclose()

    assert {message.data for message in messages} == {b"content"}
    assert receiver.messages.empty()


async def test_the_planned_subscriptions_can_be_made_again_for_another_local_cloud(
    pubsub_emulator: str,
) -> None:
    for seconds, acknowledgement in ((60, 90), (30, 60)):
        with Ports() as ports:
            addresses = choose_addresses(CloudOptions(), ports, emulated=True)
        planned = provisioning.plan_subscriptions(addresses, Timeouts(seconds))
        await subscribe(pubsub_emulator, *planned)

        async with httpx.AsyncClient(base_url=f"http://{pubsub_emulator}/v1/") as client:
            for subscription in planned:
                made = (await client.get(subscription.name)).json()
                assert made["pushConfig"]["pushEndpoint"] == subscription.endpoint
                assert made["ackDeadlineSeconds"] == acknowledgement
                dead = made.get("deadLetterPolicy", {}).get("deadLetterTopic")
                assert dead == subscription.dead_letter_topic
            path = f"projects/{names.PROJECT_ID}/subscriptions"
            listed = json.dumps((await client.get(path)).json())
        assert "uploads-dead-retained" in listed
        assert "conversions-dead-retained" in listed


async def test_a_recreated_subscription_pushes_only_to_the_new_address_and_keeps_dead_letters(
    pubsub_emulator: str, publisher_client: PublisherClient
) -> None:
    old, new = Receiver(), Receiver()
    async with (
        served(old) as old_url,
        served(new) as new_url,
    ):
        subscription = a_subscription(old_url)
        publisher = PubSubPublisher(lambda: publisher_client, subscription.topic)
        await subscribe(pubsub_emulator, subscription)
        await publisher.publish(b"first", {})
        assert (await old.messages.get()).data == b"first"

        await subscribe(pubsub_emulator, replace(subscription, endpoint=new_url))
        await publisher.publish(b"second", {})

        assert (await new.messages.get()).data == b"second"
        assert old.messages.empty()
        await publisher.aclose()
    assert await pull_two(pubsub_emulator, f"{subscription.topic.rpartition('/')[2]}-retained") == {
        b"first",
        b"second",
    }


async def pull_two(emulator: str, name: str) -> set[bytes]:
    """Pull two different messages, which the emulator may give one by one."""
    found: set[bytes] = set()
    async with httpx.AsyncClient(base_url=f"http://{emulator}/v1/", timeout=60) as client:
        while len(found) < 2:
            url = f"{names.subscription_path(name)}:pull"
            pulled = (await client.post(url, json={"maxMessages": 2 - len(found)})).json()
            found |= {
                base64.b64decode(each["message"]["data"]) for each in pulled["receivedMessages"]
            }
    return found
