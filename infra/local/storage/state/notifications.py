"""Notifications of changes, in the wire format of `google_storage_notification`.

Format: https://cloud.google.com/storage/docs/pubsub-notifications. A notification is recorded in
the same transaction as the change that it tells, and kept until it is published: at least once,
whenever the server is killed.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.local.storage.protocol.errors import InvalidArgumentError
from infra.local.storage.protocol.resources import Json, NotificationConfig, StoredObject, rfc3339

if TYPE_CHECKING:
    from logging import Logger

    from infra.local.storage.state.catalogue import Catalogue, OutboxMessage

FINALIZE = "OBJECT_FINALIZE"
DELETE = "OBJECT_DELETE"
_EVENT_TYPES = (FINALIZE, DELETE, "OBJECT_METADATA_UPDATE", "OBJECT_ARCHIVE")
_PAYLOAD_FORMATS = ("JSON_API_V1", "NONE")
_TOPIC_SERVICE = "//pubsub.googleapis.com/"
_TOPIC_PARTS = 4
_MOST_AT_ONCE = 32

Publish = Callable[[str, bytes, Mapping[str, str]], Awaitable[None]]
"""Publishes to a topic (`projects/P/topics/T`) data and attributes; raises where it could not."""


def parsed_config(bucket: str, body: Json) -> NotificationConfig:
    """A notification configuration as a client asks for it, still without an id (0).

    Raises:
        InvalidArgumentError: the topic, an event type or the payload format is not one.
    """
    event_types = body.get("event_types") or []
    payload_format = body.get("payload_format") or "JSON_API_V1"
    attributes = body.get("custom_attributes") or {}
    if not isinstance(event_types, list) or not set(event_types) <= set(_EVENT_TYPES):
        raise InvalidArgumentError(f"event_types must be of {', '.join(_EVENT_TYPES)}.")
    if payload_format not in _PAYLOAD_FORMATS:
        raise InvalidArgumentError(f"payload_format must be one of {', '.join(_PAYLOAD_FORMATS)}.")
    if not isinstance(attributes, dict):
        raise InvalidArgumentError("custom_attributes must be an object of strings.")
    return NotificationConfig(
        bucket=bucket,
        config_id=0,
        topic=_parsed_topic(body.get("topic")),
        event_types=tuple(event_types),
        object_name_prefix=str(body.get("object_name_prefix") or ""),
        payload_format=payload_format,
        custom_attributes={str(key): str(value) for key, value in attributes.items()},
    )


def _parsed_topic(value: object) -> str:
    topic = value.removeprefix(_TOPIC_SERVICE) if isinstance(value, str) else ""
    parts = topic.split("/")
    if len(parts) != _TOPIC_PARTS or parts[0::2] != ["projects", "topics"] or not all(parts):
        raise InvalidArgumentError(
            f"topic must look like {_TOPIC_SERVICE}projects/PROJECT/topics/TOPIC, not {value!r}."
        )
    return topic


@dataclass(frozen=True, slots=True)
class Event:
    """A change of an object: its type, the object, when (microseconds), and what it replaced."""

    event_type: str
    stored: StoredObject
    time: int
    overwrote_generation: int | None = None
    overwritten_by_generation: int | None = None

    def attributes(self, config: NotificationConfig) -> dict[str, str]:
        """The attributes of the message to a configuration's topic."""
        attributes = dict(config.custom_attributes)
        attributes |= {
            "notificationConfig": (
                f"projects/_/buckets/{config.bucket}/notificationConfigs/{config.config_id}"
            ),
            "eventType": self.event_type,
            "payloadFormat": config.payload_format,
            "bucketId": self.stored.bucket,
            "objectId": self.stored.name,
            "objectGeneration": str(self.stored.generation),
            "eventTime": rfc3339(self.time, "microseconds"),
        }
        if self.overwrote_generation is not None:
            attributes["overwroteGeneration"] = str(self.overwrote_generation)
        if self.overwritten_by_generation is not None:
            attributes["overwrittenByGeneration"] = str(self.overwritten_by_generation)
        return attributes

    def data(self, config: NotificationConfig, base_url: str) -> bytes:
        """The data of that message."""
        if config.payload_format == "NONE":
            return b""
        return json.dumps(self.stored.resource(base_url), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Backoff:
    """Times in seconds: between attempts, doubled from first to longest, and for one attempt."""

    first: float = 0.1
    longest: float = 10.0
    attempt: float = 30.0

    def delay(self, failures: int) -> float:
        """How long to wait after so many failures, with jitter."""
        longest = min(self.longest, self.first * 2.0 ** min(failures - 1, 32))
        return random.uniform(longest / 2, longest)  # noqa: S311 - jitter is no secret


class Notifications:
    """Records notifications and publishes them in the background."""

    def __init__(
        self, catalogue: Catalogue, publish: Publish, backoff: Backoff, logger: Logger
    ) -> None:
        self._catalogue = catalogue
        self._publish = publish
        self._backoff = backoff
        self._logger = logger
        self._recorded = asyncio.Event()
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)

    def record(self, event: Event, base_url: str) -> None:
        """Keep an event's messages; to be called in the transaction that makes the change."""
        for config in self._catalogue.list_configs(event.stored.bucket):
            if config.wants(event.event_type, event.stored.name):
                self._catalogue.add_message(
                    config.topic, event.data(config, base_url), event.attributes(config)
                )
        self._recorded.set()

    async def run(self) -> None:
        """Publish what was recorded, also before a restart, until cancelled."""
        last_id = 0
        async with asyncio.TaskGroup() as deliveries:
            while True:
                self._recorded.clear()
                for message in self._catalogue.messages_after(last_id):
                    last_id = message.message_id
                    deliveries.create_task(self._deliver(message))
                await self._recorded.wait()

    async def _deliver(self, message: OutboxMessage) -> None:
        failures = 0
        while not await self._published(message, failures):
            failures += 1
            await asyncio.sleep(self._backoff.delay(failures))
        self._catalogue.delete_message(message.message_id)

    async def _published(self, message: OutboxMessage, failures: int) -> bool:
        async with self._places:
            try:
                async with asyncio.timeout(self._backoff.attempt):
                    await self._publish(message.topic, message.data, message.attributes)
            except Exception as error:  # noqa: BLE001 - whatever it was, the message must not be lost
                self._logger.warning(
                    "Publishing to %s failed %d times, will be repeated: %s: %s",
                    message.topic,
                    failures + 1,
                    type(error).__name__,
                    error,
                )
                return False
        return True
