"""Pub/Sub behind a network that forgets, delays, cuts and resets connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from shared.google.pubsub import PubSubPublisher, open_publisher_client
from tests.integration.pubsub.test_publishing import Receiver, a_subscription, served, subscribe
from tests.support.proxy import FAULTS, Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.emulators

SECONDS = 20
"""How long whoever waits may have to wait."""


@pytest_asyncio.fixture
async def proxy(pubsub_emulator: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    async with Proxy(pubsub_emulator) as running:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", running.address)
        yield running


@pytest.mark.parametrize("spoil", FAULTS)
async def test_messages_are_published_over_a_new_connection(
    pubsub_emulator: str, proxy: Proxy, spoil: Callable[[Proxy], None]
) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        subscription = a_subscription(url)
        await subscribe(pubsub_emulator, subscription)
        publisher = PubSubPublisher(open_publisher_client, subscription.topic)
        await publisher.publish(b"before", {})
        spoil(proxy)

        wanted = {b"before", b"1", b"2"}
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*(publisher.publish(data, {}) for data in (b"1", b"2")))
            while wanted:
                # What was published twice comes twice.
                wanted.discard((await receiver.messages.get()).data)

        await publisher.aclose()
