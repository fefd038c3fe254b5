"""Topics in memory that push over HTTP, like Pub/Sub: at least once, with backoff and dead letters.

Tests use them, and so does the local cloud without Google's emulator.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOG = logging.getLogger(__name__)

ACKNOWLEDGING: Final = frozenset({102, 200, 201, 202, 204})
"""The statuses that acknowledge a push; after any other one the message is delivered again."""


class Deliver(Protocol):
    """Sends one push request."""

    async def __call__(self, endpoint: str, envelope: Mapping[str, Any]) -> int:
        """POST `envelope` as JSON and return the status; raise OSError if there is no answer."""
        ...


@dataclass(frozen=True, slots=True)
class Subscription:
    """A push subscription.

    Attributes:
        name: its full name.
        topic: full name of the topic it belongs to.
        endpoint: the URL that messages are pushed to.
        acknowledgement_seconds: how long an answer may take.
        dead_letter_topic: full name of the topic for messages that are never acknowledged.
        attempts: how often a message is delivered before it becomes a dead letter.
        first_backoff_seconds: the pause after the first failure; it doubles after each.
        longest_backoff_seconds: the longest pause.
        unless: messages with an attribute of this name are not delivered.
    """

    name: str
    topic: str
    endpoint: str
    acknowledgement_seconds: float
    dead_letter_topic: str | None = None
    attempts: int = 30
    first_backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 10.0
    unless: str | None = None

    @property
    def filter(self) -> str | None:
        """The filter in Pub/Sub's language; None if everything is delivered."""
        return None if self.unless is None else f"NOT attributes:{self.unless}"


@dataclass(eq=False, slots=True)
class _Message:
    data: bytes
    attributes: Mapping[str, str]
    message_id: str
    published_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def envelope(self, subscription: str) -> dict[str, Any]:
        message = {
            "data": base64.b64encode(self.data).decode(),
            "attributes": dict(self.attributes),
            "messageId": self.message_id,
            "publishTime": self.published_at.isoformat(),
        }
        return {"message": message, "subscription": subscription}


class MemoryTopics:
    """All topics and push subscriptions of the embedded local cloud.

    Args:
        deliver: sends one push request.
        subscriptions: every push subscription.
    """

    def __init__(self, deliver: Deliver, subscriptions: tuple[Subscription, ...]) -> None:
        self._deliver = deliver
        self._subscriptions = subscriptions
        self._message_ids = count(1)
        self._deliveries: set[asyncio.Task[None]] = set()
        self.dead: list[tuple[str, bytes]] = []

    def publisher(self, topic: str) -> MemoryPublisher:
        """Return the publisher of a topic, given its full name."""
        return MemoryPublisher(self, topic)

    def publish(self, topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        """Accept a message and start to deliver it to every subscription of the topic."""
        message = _Message(data, attributes, str(next(self._message_ids)))
        for subscription in self._subscriptions:
            if subscription.topic == topic and subscription.unless not in attributes:
                delivery = asyncio.create_task(self._deliver_until_done(subscription, message))
                self._deliveries.add(delivery)
                delivery.add_done_callback(self._deliveries.discard)

    async def aclose(self) -> None:
        """Stop delivering; messages that were not acknowledged are lost."""
        deliveries = tuple(self._deliveries)
        for delivery in deliveries:
            delivery.cancel()
        await asyncio.gather(*deliveries, return_exceptions=True)

    async def _deliver_until_done(self, subscription: Subscription, message: _Message) -> None:
        pause = subscription.first_backoff_seconds
        for attempt in range(1, subscription.attempts + 1):
            if await self._is_acknowledged(subscription, message):
                return
            if attempt < subscription.attempts:
                await asyncio.sleep(pause)
                pause = min(pause * 2, subscription.longest_backoff_seconds)
        self._bury(subscription, message)

    async def _is_acknowledged(self, subscription: Subscription, message: _Message) -> bool:
        envelope = message.envelope(subscription.name)
        try:
            async with asyncio.timeout(subscription.acknowledgement_seconds):
                status = await self._deliver(subscription.endpoint, envelope)
        except OSError as error:  # TimeoutError is one, too
            _LOG.warning("push to %s failed: %s", subscription.endpoint, error)
            return False
        return status in ACKNOWLEDGING

    def _bury(self, subscription: Subscription, message: _Message) -> None:
        if subscription.dead_letter_topic is None:
            _LOG.error("%s gives up message %s", subscription.name, message.message_id)
            self.dead.append((subscription.topic, message.data))
            return
        origin = {"CloudPubSubDeadLetterSourceSubscription": subscription.name.rpartition("/")[2]}
        self.publish(subscription.dead_letter_topic, message.data, {**message.attributes, **origin})


class MemoryPublisher:
    """A `shared.voices.messages.Publisher` of one topic in memory."""

    def __init__(self, topics: MemoryTopics, topic: str) -> None:
        self._topics = topics
        self._topic = topic

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Publish a message; it is delivered in the background."""
        self._topics.publish(self._topic, data, attributes)

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""
