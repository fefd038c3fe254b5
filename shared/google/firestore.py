"""Firestore's client with a connection that can be replaced, and its calls with retries.

A network can forget a connection (a NAT that restarts, an instance that was frozen): then requests
are lost without an error, and gRPC keeps using it for minutes. A caller without an answer in time
asks for a new connection here; calls under way keep the old one for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import grpc  # type: ignore[import-untyped]  # it comes without types
from google.api_core import exceptions as google_errors
from google.api_core.datetime_helpers import DatetimeWithNanoseconds
from google.api_core.retry import if_exception_type
from google.api_core.retry_async import AsyncRetry
from google.cloud.firestore_v1 import AsyncClient

from shared.voices.store import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
    from google.cloud.firestore_v1.services.firestore.transports import (
        FirestoreGrpcAsyncIOTransport,
    )


_LOG = logging.getLogger(__name__)

LEAST_SECONDS: Final = 3.0  # of a connection's life: calls that fail together share the new one
GRACE_SECONDS: Final = 60.0  # the time for the calls under way on an old connection


_CHANNEL_OPTIONS: Final = (
    # Otherwise channels with the same target share connections, and a new one is the old one.
    ("grpc.use_local_subchannel_pool", 1),
    # As the library sets them.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)


class RenewableClient(AsyncClient):
    """An asynchronous Firestore client whose connection can be replaced during use."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic, **settings: Any) -> None:
        super().__init__(**settings)
        self._now = now
        self._renewed_at = float("-inf")
        self._closing: set[asyncio.Task[None]] = set()

    def renew(self) -> None:
        """Open a new connection for the next calls, unless this one is new."""
        old: FirestoreAsyncClient | None = self._firestore_api_internal
        if old is None or self._now() - self._renewed_at < LEAST_SECONDS:
            return
        _LOG.warning("Firestore does not answer; a new connection is opened")
        self._renewed_at = self._now()
        # The library opens a connection where there is none.
        self._firestore_api_internal = None
        channel = cast("FirestoreGrpcAsyncIOTransport", old.transport).grpc_channel
        closing = asyncio.create_task(channel.close(GRACE_SECONDS))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _firestore_api_helper(self, transport: Any, client_class: Any, client_module: Any) -> Any:
        # The library has no setting for its channel; this is the place where it makes it.
        if self._firestore_api_internal is None:
            if self._emulator_host is None:
                channel = transport.create_channel(
                    self._target, credentials=self._credentials, options=_CHANNEL_OPTIONS
                )
            else:
                channel = grpc.aio.insecure_channel(self._emulator_host, options=_CHANNEL_OPTIONS)
            self._transport = transport(host=self._target, channel=channel)
            self._firestore_api_internal = client_class(
                transport=self._transport, client_options=self._client_options
            )
            client_module._client_info = self._client_info  # noqa: SLF001 - as the library does
        return self._firestore_api_internal

    async def aclose(self) -> None:
        for closing in tuple(self._closing):
            closing.cancel()
        # The client's own `close` leaves the channel open; its other properties would open one.
        opened: FirestoreAsyncClient | None = self._firestore_api_internal
        if opened is not None:
            await opened.transport.close()
        self.close()  # type: ignore[no-untyped-call]  # the library's is untyped


CALL_SECONDS: Final = 10.0  # of a call with its retries; then Pub/Sub delivers the message again
ATTEMPT_SECONDS: Final = 4.0  # of one try of a call; the next one goes over a new connection

# Every write names the state that it replaces, or says that there is none, so the second try shows
# whether the first one was applied. Calls whose connection is reset end with Unknown or Cancelled.
_RETRIED: Final = (
    google_errors.Cancelled,
    google_errors.DeadlineExceeded,
    google_errors.InternalServerError,
    google_errors.ResourceExhausted,
    google_errors.ServiceUnavailable,
    google_errors.Unknown,
)
_PASSING: Final = (*_RETRIED, google_errors.Aborted, google_errors.RetryError)
_FIRST_PAUSE_SECONDS: Final = 0.1

_Answer = TypeVar("_Answer")


class Calls:
    """Calls methods of the client until Firestore answers, each try over the newest connection."""

    def __init__(self, client: RenewableClient) -> None:
        def take_new_connection(error: Exception) -> None:
            if isinstance(error, google_errors.DeadlineExceeded):
                client.renew()

        self._retry = AsyncRetry(
            if_exception_type(*_RETRIED),
            initial=_FIRST_PAUSE_SECONDS,
            timeout=CALL_SECONDS,
            on_error=take_new_connection,
        )

    async def call(
        self, call: Callable[..., Awaitable[_Answer]], *arguments: Any, **options: Any
    ) -> _Answer:
        attempt = partial(call, *arguments, retry=None, timeout=ATTEMPT_SECONDS, **options)
        return await self._retry(attempt)()


def moment_of(time: Any) -> datetime:
    """Return a time as a datetime; a collection group's query returns Firestore's raw ones."""
    return time if isinstance(time, datetime) else DatetimeWithNanoseconds.from_timestamp_pb(time)


@contextmanager
def missing_index(fields: str) -> Iterator[None]:
    """Turn the refusal of a query whose index is missing into `StoreUnavailableError`."""
    try:
        yield
    except google_errors.FailedPrecondition as error:
        raise StoreUnavailableError(
            f"the index on {fields} is missing or still being built, which takes minutes;"
            f" Firestore says: {error.message}"
        ) from error


@contextmanager
def passing_errors() -> Iterator[None]:
    try:
        yield
    except _PASSING as error:
        raise StoreUnavailableError(f"Firestore did not answer: {error}") from error
