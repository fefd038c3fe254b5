"""Cloud Pub/Sub: the adapter that implements `shared.ports.topic.Publisher`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from shared.errors import PublishError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.cloud.pubsub_v1 import PublisherClient

PUBLISH_SECONDS: Final = 10.0


class PubSubPublisher:
    """A `Publisher` that uses Cloud Pub/Sub.

    Args:
        client: the Pub/Sub client; the publisher stops it.
        topic: the topic's full name, `projects/P/topics/T`.
    """

    def __init__(self, client: PublisherClient, topic: str) -> None:
        self._client = client
        self._topic = topic

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Publish a message; see `Publisher.publish`."""
        try:
            named: dict[str, Any] = dict(attributes)
            pending = self._client.publish(self._topic, data, timeout=PUBLISH_SECONDS, **named)
            async with asyncio.timeout(PUBLISH_SECONDS + 1):
                await asyncio.wrap_future(pending)
        except Exception as error:  # the client's futures raise any error of the transport
            raise PublishError(f"Pub/Sub did not accept a message for {self._topic}") from error

    async def aclose(self) -> None:
        """Send what is still buffered and stop the client's threads."""
        await asyncio.to_thread(self._client.stop)
