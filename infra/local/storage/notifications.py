"""Notifications of changes, in the wire format of Cloud Storage.

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
DELETE = "OBJECT_DELETE"
METADATA_UPDATE = "OBJECT_METADATA_UPDATE"
_EVENT_TYPES = (FINALIZE, DELETE, METADATA_UPDATE, "OBJECT_ARCHIVE")
_TOPIC_SERVICE = "//pubsub.googleapis.com/"
_MOST_AT_ONCE = 32

Publish = Callable[[str, bytes, Mapping[str, str]], Awaitable[None]]
"""Publishes to a topic (`projects/P/topics/T`) data and attributes; raises where it could not."""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A change of an object: the attributes of its messages, and the object's resource."""

    event_type: str
    object_name: str
    attributes: Mapping[str, str]
    resource: Json


@dataclass(frozen=True, slots=True)
class NotificationConfig:
    """Sends events of a bucket to a topic (`projects/P/topics/T`)."""

    bucket: str
    config_id: str
    topic: str
    event_types: tuple[str, ...]
    object_name_prefix: str
    payload_format: str
    custom_attributes: Mapping[str, str]

    @classmethod
    def parse(cls, bucket: str, config_id: str, body: Json) -> NotificationConfig:
        event_types = body.get("event_types") or []
        payload_format = body.get("payload_format") or "JSON_API_V1"
        attributes = body.get("custom_attributes") or {}
        if not isinstance(event_types, list) or not all(one in _EVENT_TYPES for one in event_types):
            raise errors.invalid_argument(f"event_types must be of {', '.join(_EVENT_TYPES)}.")
        if payload_format not in {"JSON_API_V1", "NONE"} or not isinstance(attributes, dict):
            raise errors.invalid_argument("payload_format or custom_attributes is not valid.")
        topic = str(body.get("topic")).removeprefix(_TOPIC_SERVICE)
        if not re.fullmatch("projects/[^/]+/topics/[^/]+", topic):
            raise errors.invalid_argument(
                f"topic must look like {_TOPIC_SERVICE}projects/P/topics/T, not {topic!r}."
            )
        return cls(
            bucket=bucket,
            config_id=config_id,
            topic=topic,
            event_types=tuple(event_types),
            object_name_prefix=str(body.get("object_name_prefix") or ""),
            payload_format=payload_format,
            custom_attributes={str(key): str(value) for key, value in attributes.items()},
        )

    def wants(self, event: ObjectEvent) -> bool:
        is_wanted_type = not self.event_types or event.event_type in self.event_types
        return is_wanted_type and event.object_name.startswith(self.object_name_prefix)

    def message(self, event: ObjectEvent) -> tuple[bytes, dict[str, str]]:
        data = b""
        if self.payload_format != "NONE":
            data = json.dumps(event.resource, ensure_ascii=False).encode()
        config = f"projects/_/buckets/{self.bucket}/notificationConfigs/{self.config_id}"
        return data, {
            **self.custom_attributes,
            **event.attributes,
            "notificationConfig": config,
            "payloadFormat": self.payload_format,
        }

    def resource(self, base_url: str) -> Json:
        path = f"/storage/v1/b/{self.bucket}/notificationConfigs/{self.config_id}"
        resource: Json = {
            "kind": "storage#notification",
            "id": self.config_id,
            "selfLink": f"{base_url}{path}",
            "topic": f"{_TOPIC_SERVICE}{self.topic}",
            "payload_format": self.payload_format,
            "etag": self.config_id,
            "event_types": list(self.event_types),
            "object_name_prefix": self.object_name_prefix,
            "custom_attributes": dict(self.custom_attributes),
        }
        return {name: value for name, value in resource.items() if value}


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

    def publish(self, configs: Iterable[NotificationConfig], event: ObjectEvent) -> None:
        for config in configs:
            if config.wants(event):
                delivery = asyncio.create_task(self._deliver(config.topic, *config.message(event)))
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
