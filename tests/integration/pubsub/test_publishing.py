"""Publishing and pushing through Google's Pub/Sub emulator."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
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
from tests.support.asgi_server import served as serving
from tests.support.publisher_contract import PublisherContract, Topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from shared.voices.messages import PushMessage

pytestmark = pytest.mark.emulators


class Receiver:
    def __init__(self) -> None:
        self.messages: asyncio.Queue[PushMessage] = asyncio.Queue()

    async def __call__(self, message: PushMessage) -> None:
        self.messages.put_nowait(message)


@asynccontextmanager
async def served(receiver: Receiver) -> AsyncIterator[str]:
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
