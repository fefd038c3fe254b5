"""Receiving one recording over a WebSocket, within limits."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from functions.live.messages import protocol
from functions.live.messages.protocol import Cancel, Close, End, MalformedError, Start
from shared.voices.media import UnsupportedContentTypeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator


class RefusedError(Exception):
    """The connection must be closed.

    Attributes:
        close: with which code and reason.
    """

    def __init__(self, close: Close, why: str = "") -> None:
        super().__init__(f"{close.reason}: {why}" if why else close.reason)
        self.close = close


class GoneError(Exception):
    """The client closed the connection, or broke it off, before the recording was complete."""


class CancelledByVisitorError(Exception):
    """The client sent `cancel` before `end`."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may send.

    Attributes:
        max_bytes: the largest recording.
        max_messages: the most messages.
        listening_seconds: how long it may take until `end`.
    """

    max_bytes: int
    max_messages: int
    listening_seconds: float


class HeldBytes:
    """Counts the bytes of recordings that all connections hold in memory.

    Args:
        most: how many they may hold.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yield the counter of one connection's bytes, until its end.

        Raises:
            RefusedError: there is no memory for these bytes.
        """
        own = 0

        def hold(size: int) -> None:
            nonlocal own
            if self._held + size > self._most:
                raise RefusedError(Close.BUSY, "the recordings of all connections are too large")
            own += size
            self._held += size

        try:
            yield hold
        finally:
            self._held -= own


class Messages(Protocol):
    """Where the messages of a client come from."""

    async def __call__(self) -> str | bytes:
        """Return the next message.

        Raises:
            GoneError: there is none: the connection has ended.
        """
        ...


@dataclass(slots=True)
class Intake:
    """Receives one recording.

    Attributes:
        receive: returns the client's next message.
        limits: what the client may send.
        hold: counts the bytes that are kept.
        data: what has come of the recording.
    """

    receive: Messages
    limits: ConnectionLimits
    hold: Callable[[int], None]
    data: bytearray = field(default_factory=bytearray)
    _messages: int = 0

    async def start(self) -> Start:
        """Wait for the first message.

        Raises:
            RefusedError: it did not come in time, or it is no `start`.
            GoneError: the connection has ended.
        """
        message = await self._next(protocol.START_SECONDS)
        if isinstance(message, Start):
            return message
        raise RefusedError(Close.MALFORMED, "the first message must be `start`")

    async def record(self, heard: Callable[[bytes], Awaitable[None]]) -> End:
        """Receive the recording up to `end`.

        Args:
            heard: is called with every piece of the recording.

        Raises:
            RefusedError: the client did not keep to the protocol or its limits.
            CancelledByVisitorError: the client does not want the recording to be converted.
            GoneError: the connection has ended.
        """
        try:
            async with asyncio.timeout(self.limits.listening_seconds):
                while True:
                    message = await self._next(protocol.IDLE_SECONDS)
                    if isinstance(message, End):
                        return message
                    if isinstance(message, Cancel):
                        raise CancelledByVisitorError
                    if isinstance(message, Start):
                        raise RefusedError(Close.MALFORMED, "there is only one `start`")
                    self._keep(message)
                    await heard(message)
        except TimeoutError:
            raise RefusedError(Close.TOO_SLOW, "`end` did not come in time") from None

    def is_complete(self, end: End) -> bool:
        """Return whether all bytes have come, and unchanged."""
        return len(self.data) == end.bytes and (hashlib.sha256(self.data).hexdigest() == end.sha256)

    async def _next(self, seconds: float) -> Start | End | Cancel | bytes:
        try:
            async with asyncio.timeout(seconds):
                message = await self.receive()
        except TimeoutError:
            raise RefusedError(Close.TOO_SLOW, f"nothing came for {seconds:g} s") from None
        self._messages += 1
        if self._messages > self.limits.max_messages:
            raise RefusedError(Close.TOO_MANY_MESSAGES)
        if isinstance(message, bytes):
            return message
        try:
            return protocol.parse(message)
        except UnsupportedContentTypeError as error:
            raise RefusedError(Close.UNSUPPORTED_CONTENT_TYPE, str(error)) from error
        except MalformedError as error:
            raise RefusedError(Close.MALFORMED, str(error)) from error

    def _keep(self, piece: bytes) -> None:
        if len(self.data) + len(piece) > self.limits.max_bytes:
            raise RefusedError(Close.TOO_LARGE, f"more than {self.limits.max_bytes} bytes came")
        self.hold(len(piece))
        self.data += piece
