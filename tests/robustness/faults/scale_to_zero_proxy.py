"""Replaces Pub/Sub's push and Cloud Run's front end, between topics and a service's instances.

The emulator's own push delivers to an endpoint one message after another until it has gained
confidence, so a held delivery would hold up all others. Here messages are pulled from the same
subscriptions, with their retries and dead letters, and pushed at once, to the instance that the
test chose; an instance that dies answers 503, and every answer is remembered.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import httpx

from infra.local.cloud.memory import ACKNOWLEDGING
from infra.local.configuration import names

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

PATIENCE_SECONDS = 100.0
"""How long a test waits for a required event; only a failing test waits that long."""

SERVICES = {
    "uploads": "on_upload",
    "conversions": "convert",
    "uploads-dead": "dead_letter",
    "conversions-dead": "dead_letter",
}
"""Which service the push subscription of a topic belongs to."""


@dataclass(eq=False)
class Delivery:
    """One push: its message, its voice, and its answer (None until it arrives)."""

    service: str
    message_id: str
    voice_id: str
    status: int | None = None


LOST = "lost"
"""The instance to choose for a message that is lost: it counts as acknowledged."""


class Front:
    """Delivers messages; `default[SERVICE]` is the address of the usual instance."""

    def __init__(self, pubsub: str) -> None:
        self.default: dict[str, str] = {}
        self.deliveries: list[Delivery] = []
        self._pubsub = f"http://{pubsub}/v1"
        self._pinned: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._client = httpx.AsyncClient(timeout=None)  # noqa: S113 - a held delivery may take long
        return self

    async def __aexit__(self, *_exception: object) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    async def start(self) -> None:
        """Turn the push subscriptions into pull subscriptions and start to deliver."""
        for topic, service in SERVICES.items():
            subscription = names.subscription_path(f"{topic}-push")
            await self._call(subscription, "modifyPushConfig", {"pushConfig": {}})
            self._spawn(self._pull(subscription, service))

    def pin(self, voice_id: str, *instances: str, service: str = "convert") -> None:
        """Choose the instances that the next deliveries about a voice go to, one after another."""
        self._pinned[service, voice_id].extend(instances)

    def about(self, voice_id: str, service: str = "convert") -> Iterator[Delivery]:
        return (d for d in self.deliveries if (d.voice_id, d.service) == (voice_id, service))

    async def answered(self, voice_id: str, status: int, service: str = "convert") -> None:
        await self._until(lambda: any(d.status == status for d in self.about(voice_id, service)))

    async def acknowledged(
        self, voice_id: str, service: str = "convert", *, messages: int = 1
    ) -> None:
        """Wait until all messages about a voice that have come, and this many, are acknowledged."""
        await self._until(lambda: self._settled(voice_id, service) >= messages)

    def _settled(self, voice_id: str, service: str) -> int:
        """Count the acknowledged messages about a voice; -1 while one is not acknowledged."""
        ends: Counter[str] = Counter()
        for delivery in self.about(voice_id, service):
            if delivery.status is None:
                return -1
            ends[delivery.message_id] += delivery.status in ACKNOWLEDGING
        return len(ends) if all(ends.values()) else -1

    async def _until(self, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise AssertionError(f"it did not happen; deliveries: {self.deliveries}") from None

    async def _pull(self, subscription: str, service: str) -> None:
        while True:
            answer = await self._call(subscription, "pull", {"maxMessages": 50})
            for received in answer.get("receivedMessages", ()):
                self._spawn(self._deliver(subscription, service, received))

    async def _deliver(self, subscription: str, service: str, received: dict[str, Any]) -> None:
        message = received["message"]
        attributes = message.get("attributes", {})
        voice_id = attributes.get("voice_id") or attributes.get("objectId", "")
        delivery = Delivery(service, message["messageId"], voice_id)
        self.deliveries.append(delivery)
        status = await self._push(delivery, {"message": message, "subscription": subscription})
        ids = {"ackIds": [received["ackId"]]}
        if status in ACKNOWLEDGING:
            await self._call(subscription, "acknowledge", ids)
        else:
            await self._call(subscription, "modifyAckDeadline", ids | {"ackDeadlineSeconds": 0})
        delivery.status = status
        async with self._changed:
            self._changed.notify_all()

    async def _push(self, delivery: Delivery, envelope: dict[str, Any]) -> int:
        pinned = self._pinned[delivery.service, delivery.voice_id]
        instance = pinned.popleft() if pinned else self.default[delivery.service]
        if instance == LOST:
            return 204
        try:
            return (await self._client.post(instance, json=envelope)).status_code
        except httpx.TransportError:
            return 503

    async def _call(self, subscription: str, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self._client.post(f"{self._pubsub}/{subscription}:{verb}", json=body)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
