"""Notifications of new objects, in the wire format of Cloud Storage.

Format: https://cloud.google.com/storage/docs/pubsub-notifications. A message is sent until it is
published or the server stops.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.local.storage import errors

if TYPE_CHECKING:
    from collections.abc import Iterable
    from logging import Logger

    from infra.local.storage.requests import Json

FINALIZE = "OBJECT_FINALIZE"
_REFUSED_FIELDS = ("custom_attributes", "object_name_prefix")
_TOPIC_SERVICE = "//pubsub.googleapis.com/"
_MOST_AT_ONCE = 32

Publish = Callable[[str, bytes, Mapping[str, str]], Awaitable[None]]
"""Publishes to a topic (`projects/P/topics/T`) data and attributes; raises where it could not."""


@dataclass(frozen=True, slots=True)
class NotificationConfig:
    """Sends the new objects of a bucket to a topic (`projects/P/topics/T`)."""

    bucket: str
    config_id: str
    topic: str

    @classmethod
    def parse(cls, bucket: str, config_id: str, body: Json) -> NotificationConfig:
        for name in _REFUSED_FIELDS:
            if body.get(name):
                raise errors.not_offered(f"The local cloud does not offer {name}.")
        if body.get("event_types") != [FINALIZE] or body.get("payload_format") != "JSON_API_V1":
            raise errors.not_offered(f"The local cloud sends {FINALIZE} as JSON_API_V1 alone.")
        topic = str(body.get("topic")).removeprefix(_TOPIC_SERVICE)
        if not re.fullmatch("projects/[^/]+/topics/[^/]+", topic):
            raise errors.invalid_argument(
                f"topic must look like {_TOPIC_SERVICE}projects/P/topics/T, not {topic!r}."
            )
        return cls(bucket, config_id, topic)

    @property
    def attributes(self) -> dict[str, str]:
        path = f"projects/_/buckets/{self.bucket}/notificationConfigs/{self.config_id}"
        return {"notificationConfig": path, "payloadFormat": "JSON_API_V1"}

    def resource(self, base_url: str) -> Json:
        path = f"/storage/v1/b/{self.bucket}/notificationConfigs/{self.config_id}"
        return {
            "kind": "storage#notification",
            "id": self.config_id,
            "selfLink": f"{base_url}{path}",
            "topic": f"{_TOPIC_SERVICE}{self.topic}",
            "payload_format": "JSON_API_V1",
            "etag": self.config_id,
            "event_types": [FINALIZE],
        }


@dataclass(frozen=True, slots=True)
class PublishPatience:
    """Times in seconds: between attempts to publish, and for one of them."""

    pause: float = 1.0
    attempt: float = 30.0


class Notifications:
    def __init__(self, publish: Publish, patience: PublishPatience, logger: Logger) -> None:
        self._publish = publish
        self._patience = patience
        self._logger = logger
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)
        self._deliveries: set[asyncio.Task[None]] = set()

    def publish(
        self, configs: Iterable[NotificationConfig], attributes: Mapping[str, str], resource: Json
    ) -> None:
        data = json.dumps(resource, ensure_ascii=False).encode()
        for config in configs:
            told = {**attributes, **config.attributes}
            delivery = asyncio.create_task(self._deliver(config.topic, data, told))
            self._deliveries.add(delivery)
            delivery.add_done_callback(self._deliveries.discard)

    async def aclose(self) -> None:
        for delivery in self._deliveries:
            delivery.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)

    async def _deliver(self, topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        while True:
            try:
                async with self._places, asyncio.timeout(self._patience.attempt):
                    await self._publish(topic, data, attributes)
            except Exception as error:  # noqa: BLE001 - no failure may lose the message
                self._logger.warning("Publishing to %s failed, trying again: %r", topic, error)
                await asyncio.sleep(self._patience.pause)
            else:
                return
