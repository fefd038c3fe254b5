"""Receiving one recording over a WebSocket, within limits."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from functions.live import protocol
from functions.live.protocol import (
    CancelRecording,
    Close,
    EndRecording,
    MalformedError,
    StartRecording,
)
from shared.voices.media import UnsupportedContentTypeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator


class RecordingRefusedError(Exception):
    """The connection must be closed."""

    def __init__(self, close: Close, why: str = "") -> None:
        super().__init__(f"{close.reason}: {why}" if why else close.reason)
        self.close = close


class VisitorGoneError(Exception):
    """The client closed the connection, or broke it off, before the recording was complete."""


class CancelledByVisitorError(Exception):
    """The client sent `cancel` before `end`."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may send.

    Attributes:
        listening_seconds: how long it may take until `end`.
    """

    max_bytes: int
    max_messages: int
    listening_seconds: float


class HeldBytes:
    """Counts the bytes of recordings that all connections hold in memory."""

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
                raise RecordingRefusedError(
                    Close.BUSY, "the recordings of all connections are too large"
                )
            own += size
            self._held += size

        try:
            yield hold
        finally:
            self._held -= own


class MessageReader(Protocol):
    """Where the messages of a client come from."""

    async def __call__(self) -> str | bytes:
        """Return the next message."""
        ...


@dataclass(slots=True)
class RecordingIntake:
    """Receives one recording.

    Attributes:
        hold: counts the bytes that are kept.
    """

    receive: MessageReader
    limits: ConnectionLimits
    hold: Callable[[int], None]
    data: bytearray = field(default_factory=bytearray)
    _messages: int = 0

    async def start(self) -> StartRecording:
        """Wait for the first message.

        Raises:
            RefusedError: it did not come in time, or it is no `start`.
            VisitorGoneError: the connection has ended.
        """
        message = await self._next(protocol.START_SECONDS)
        if isinstance(message, StartRecording):
            return message
        raise RecordingRefusedError(Close.MALFORMED, "the first message must be `start`")

    async def record(self, heard: Callable[[bytes], Awaitable[None]]) -> EndRecording:
        """Receive the recording up to `end`.

        Raises:
            RefusedError: the client did not keep to the protocol or its limits.
            CancelledByVisitorError: the client does not want the recording to be converted.
            VisitorGoneError: the connection has ended.
        """
        try:
            async with asyncio.timeout(self.limits.listening_seconds):
                while True:
                    message = await self._next(protocol.IDLE_SECONDS)
                    if isinstance(message, EndRecording):
                        return message
                    if isinstance(message, CancelRecording):
                        raise CancelledByVisitorError
                    if isinstance(message, StartRecording):
                        raise RecordingRefusedError(Close.MALFORMED, "there is only one `start`")
                    self._keep(message)
                    await heard(message)
        except TimeoutError:
            raise RecordingRefusedError(Close.TOO_SLOW, "`end` did not come in time") from None

    def is_complete(self, end: EndRecording) -> bool:
        """Return whether all bytes have come, and unchanged."""
        return len(self.data) == end.bytes and (hashlib.sha256(self.data).hexdigest() == end.sha256)

    async def _next(
        self, seconds: float
    ) -> StartRecording | EndRecording | CancelRecording | bytes:
        try:
            async with asyncio.timeout(seconds):
                message = await self.receive()
        except TimeoutError:
            raise RecordingRefusedError(Close.TOO_SLOW, f"nothing came for {seconds:g} s") from None
        self._messages += 1
        if self._messages > self.limits.max_messages:
            raise RecordingRefusedError(Close.TOO_MANY_MESSAGES)
        if isinstance(message, bytes):
            return message
        try:
            return protocol.parse(message)
        except UnsupportedContentTypeError as error:
            raise RecordingRefusedError(Close.UNSUPPORTED_CONTENT_TYPE, str(error)) from error
        except MalformedError as error:
            raise RecordingRefusedError(Close.MALFORMED, str(error)) from error

    def _keep(self, piece: bytes) -> None:
        if len(self.data) + len(piece) > self.limits.max_bytes:
            raise RecordingRefusedError(
                Close.TOO_LARGE, f"more than {self.limits.max_bytes} bytes came"
            )
        self.hold(len(piece))
        self.data += piece


class MessageSender:
    """Sends messages from a task of its own; use it as an async context manager.

    A client that reads slowly delays only its own messages. What may be left out is not even kept
    for it, so an outbox holds little more than the result.
    """

    def __init__(self, send: Callable[[str | bytes], Awaitable[None]]) -> None:
        self._send = send
        self._messages: asyncio.Queue[str | bytes] = asyncio.Queue()
        self._unsent = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to send."""
        self._task = asyncio.create_task(self._send_all())
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop sending; what still waits is dropped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def put(self, message: str | bytes) -> None:
        """Send a message that must come, after those before it."""
        self._unsent += 1
        self._messages.put_nowait(message)

    def offer(self, message: str | bytes) -> bool:
        """Send a message only if nothing else waits to be sent; return whether it is sent."""
        if self._unsent:
            return False
        self.put(message)
        return True

    async def flush(self, seconds: float) -> None:
        """Wait until everything has been sent, but no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._messages.join()

    async def _send_all(self) -> None:
        is_connected = True
        while True:
            message = await self._messages.get()
            if is_connected:
                try:
                    await self._send(message)
                except Exception:  # noqa: BLE001 - whatever the server raises when the client is gone
                    is_connected = False
            self._unsent -= 1
            self._messages.task_done()
