"""Cloud Pub/Sub: the adapter that implements `shared.ports.topic.Publisher`.

A network can forget a connection (a NAT that starts again, an instance that was frozen): what is
sent goes nowhere, nobody says so, and gRPC keeps using it for a minute. So a message that is not
accepted in time is published again over a new connection. It may arrive twice, as any message may.

The client library is not used: importing it takes a tenth of on_upload's start, for this one call.
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
from google.api_core.gapic_v1 import method_async, routing_header
from google.api_core.grpc_helpers_async import create_channel
from google.api_core.retry import AsyncRetry, if_exception_type
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from shared.errors import PublishError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOG = logging.getLogger(__name__)

TRY_SECONDS: Final = 4.0
"""How long one try to publish a message may take."""

TRIES: Final = 3
"""How often a message is published; after that, whoever wanted it says so or is asked again."""

CLOSE_SECONDS: Final = 10.0
"""How long the messages on a connection that is closed may take."""

_ADDRESS: Final = "pubsub.googleapis.com:443"
_SCOPE: Final = "https://www.googleapis.com/auth/pubsub"

_METHOD: Final = "/google.pubsub.v1.Publisher/Publish"
"""https://docs.cloud.google.com/pubsub/docs/reference/rpc/google.pubsub.v1"""

_NO_ANSWER: Final = (DeadlineExceeded, RetryError, ServiceUnavailable, TimeoutError)

# The library's own goes on for a minute, on the connection that does not answer.
_RETRY: Final = AsyncRetry(
    if_exception_type(Aborted, InternalServerError, ResourceExhausted, ServiceUnavailable, Unknown),
    initial=0.1,
    maximum=1.0,
    timeout=TRY_SECONDS,
)

_CHANNEL_OPTIONS: Final = (
    # Otherwise channels with the same target share connections, and a new one is the old one.
    ("grpc.use_local_subchannel_pool", 1),
    # As Google's library sets it.
    ("grpc.keepalive_time_ms", 30_000),
)


def _field(name: str, number: int, **details: str) -> Mapping[str, Any]:
    usual = {"type": "TYPE_STRING", "label": "LABEL_OPTIONAL"}
    return {"name": name, "number": number, **usual, **details}


def _messages(name: str, number: int, of: str) -> Mapping[str, Any]:
    return _field(name, number, type="TYPE_MESSAGE", label="LABEL_REPEATED", type_name=of)


def _request_class() -> Any:
    """Return the class of `google.pubsub.v1.PublishRequest`, with the fields that are used."""
    request = [_field("topic", 1), _messages("messages", 2, "PubsubMessage")]
    message = [
        _field("data", 1, type="TYPE_BYTES"),
        _messages("attributes", 2, "PubsubMessage.AttributesEntry"),
    ]
    entry = {
        "name": "AttributesEntry",
        "field": [_field("key", 1), _field("value", 2)],
        "options": {"map_entry": True},
    }
    file = descriptor_pb2.FileDescriptorProto(  # type: ignore[attr-defined]  # made when loaded
        name="publish.proto",
        package="google.pubsub.v1",
        syntax="proto3",
        message_type=[
            {"name": "PublishRequest", "field": request},
            {"name": "PubsubMessage", "field": message, "nested_type": [entry]},
        ],
    )
    # A pool of its own: where Google's library is loaded, the common one has these names already.
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("google.pubsub.v1.PublishRequest"))


_PublishRequest: Final = _request_class()


def open_channel() -> Any:
    """Open a channel to Pub/Sub or its emulator that shares its connections with no other."""
    emulator = os.environ.get("PUBSUB_EMULATOR_HOST")
    if emulator is None:
        return create_channel(_ADDRESS, default_scopes=(_SCOPE,), options=_CHANNEL_OPTIONS)
    return grpc.aio.insecure_channel(emulator, options=_CHANNEL_OPTIONS)


class PubSubPublisher:
    """A `Publisher` that uses Cloud Pub/Sub.

    Args:
        open_channel: opens a channel of `grpc.aio`; the publisher closes it.
        topic: the topic's full name, `projects/P/topics/T`.
    """

    def __init__(self, open_channel: Callable[[], Any], topic: str) -> None:
        self._open_channel = open_channel
        self._channel = open_channel()
        self._topic = topic
        self._closing: dict[asyncio.Task[None], Any] = {}

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Publish a message; see `Publisher.publish`."""
        request = _PublishRequest(
            topic=self._topic, messages=[{"data": data, "attributes": attributes}]
        )
        try:
            for _ in range(TRIES - 1):
                channel = self._channel
                try:
                    return await self._send(channel, request)
                except _NO_ANSWER:
                    self._renew(channel)
            await self._send(self._channel, request)
        except Exception as error:  # a channel raises any error of the transport
            raise PublishError(f"Pub/Sub did not accept a message for {self._topic}") from error

    async def _send(self, channel: Any, request: Any) -> None:
        call = channel.unary_unary(_METHOD, request_serializer=_PublishRequest.SerializeToString)
        send = method_async.wrap_method(call, _RETRY, TRY_SECONDS)
        # Google's servers choose where a request goes by this header.
        where = routing_header.to_grpc_metadata([("topic", self._topic)])
        async with asyncio.timeout(TRY_SECONDS + 1):
            await send(request, metadata=[where])

    def _renew(self, old: Any) -> None:
        if old is not self._channel:
            return
        _LOG.warning("Pub/Sub does not answer; a new connection is opened")
        self._channel = self._open_channel()
        # Other messages may still wait for their answers.
        closing = asyncio.create_task(old.close(CLOSE_SECONDS))
        self._closing[closing] = old
        closing.add_done_callback(lambda done: self._closing.pop(done, None))

    async def aclose(self) -> None:
        """Send what is still under way and close all connections."""
        old_ones = dict(self._closing)
        for closing, old in old_ones.items():
            closing.cancel()
            await old.close()
        await self._channel.close(CLOSE_SECONDS)
