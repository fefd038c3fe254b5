"""The `Publisher` on Cloud Pub/Sub.

A network can forget a connection (a NAT that restarts, an instance that was frozen): then messages
are lost without an error, and gRPC keeps using it for a minute. So a message that is not accepted
in time is published again over a new connection. It may arrive twice, as any message may.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]  # it comes without types
from google.api_core.exceptions import (
    Aborted,
    DeadlineExceeded,
    InternalServerError,
    ResourceExhausted,
    RetryError,
    ServiceUnavailable,
    Unknown,
)
from google.api_core.retry import Retry, if_exception_type

from shared.runtime.fast_start import bare_packages
from shared.voices.voice import PublishError

with bare_packages(
    "google.pubsub_v1", "google.pubsub_v1.services.publisher", "google.cloud.pubsub_v1"
):
    import google.pubsub_v1.types

    # The library asks the package itself for this one.
    vars(google.pubsub_v1)["PubsubMessage"] = google.pubsub_v1.types.PubsubMessage
    from google.cloud.pubsub_v1.publisher import Client as PublisherClient
    from google.cloud.pubsub_v1.types import BatchSettings
    from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOG = logging.getLogger(__name__)

TRY_SECONDS: Final = 4.0  # the time limit of one try to publish a message
TRIES: Final = 3  # the most tries to publish a message
CLOSE_SECONDS: Final = 10.0  # for the messages on an old connection, and for closing the publisher

_NO_ANSWER: Final = (DeadlineExceeded, RetryError, ServiceUnavailable, TimeoutError)

# The library's own goes on for a minute, on the connection that does not answer.
_RETRY: Final = Retry(
    if_exception_type(Aborted, InternalServerError, ResourceExhausted, ServiceUnavailable, Unknown),
    initial=0.1,
    maximum=1.0,
    timeout=TRY_SECONDS,
)

# Otherwise channels with the same target share connections, and a new one is the old one.
_OWN_CONNECTIONS: Final = ("grpc.use_local_subchannel_pool", 1)


class _Transport(PublisherGrpcTransport):
    """The library's transport, with connections of its own."""

    @classmethod
    def create_channel(cls, host: str, **settings: Any) -> Any:  # type: ignore[override]
        options = [*settings.pop("options", ()), _OWN_CONNECTIONS]
        return super().create_channel(host, options=options, **settings)


def open_publisher_client() -> PublisherClient:
    """Open a client that shares its connections with no other."""
    # A visitor waits for every message, so none is held back until a batch is full.
    batches = BatchSettings(max_latency=0)
    emulator = os.environ.get("PUBSUB_EMULATOR_HOST")
    if emulator is None:
        return PublisherClient(batches, transport=_Transport)
    channel = grpc.insecure_channel(emulator, options=[_OWN_CONNECTIONS])
    return PublisherClient(batches, transport=PublisherGrpcTransport(channel=channel))


class PubSubPublisher:
    """A `Publisher` on a topic, given its full name `projects/P/topics/T`."""

    def __init__(self, open_client: Callable[[], PublisherClient], topic: str) -> None:
        self._open_client = open_client
        self._client = open_client()
        self._topic = topic
        self._closing: set[asyncio.Task[None]] = set()

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        try:
            for _ in range(TRIES - 1):
                client = self._client
                try:
                    return await self._publish(client, data, attributes)
                except _NO_ANSWER:
                    self._renew(client)
            await self._publish(self._client, data, attributes)
        except Exception as error:  # the client's futures raise any error of the transport
            raise PublishError(f"Pub/Sub did not accept a message for {self._topic}") from error

    async def _publish(
        self, client: PublisherClient, data: bytes, attributes: Mapping[str, Any]
    ) -> None:
        pending = client.publish(self._topic, data, retry=_RETRY, timeout=TRY_SECONDS, **attributes)
        async with asyncio.timeout(TRY_SECONDS + 1):
            await asyncio.wrap_future(pending)

    def _renew(self, old: PublisherClient) -> None:
        if old is not self._client:
            return
        _LOG.warning("Pub/Sub does not answer; a new connection is opened")
        self._client = self._open_client()

        async def close() -> None:
            old.stop()
            try:
                # Other messages may still wait for their answers.
                await asyncio.sleep(CLOSE_SECONDS)
            finally:
                old.transport.close()

        closing = asyncio.create_task(close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Send the buffered messages and stop the client's threads."""
        for closing in tuple(self._closing):
            closing.cancel()
        async with asyncio.timeout(CLOSE_SECONDS):
            await asyncio.to_thread(self._client.stop)
