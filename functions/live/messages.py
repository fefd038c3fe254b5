"""The recording that one client sends, within limits, and the messages that go back to it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from functions.live import protocol
from functions.live.protocol import (
    CancelRecording,
    Close,
    EndRecording,
    MalformedError,
    RetryReason,
    StartRecording,
)
from shared.runtime.push import AbandonedError, OverloadedError
from shared.voices.media import UnsupportedContentTypeError
from shared.voices.objects import ObjectExistsError
from shared.voices.store import conversion_answer
from shared.voices.voice import PassingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from shared.speech.results.audio_files import EncodedResult
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)


class RecordingRefusedError(Exception):
    """The connection must be closed."""

    def __init__(self, close: Close, why: str = "") -> None:
        super().__init__(f"{close.reason}: {why}" if why else close.reason)
        self.close = close


class NoRecordingError(Exception):
    """The client cancelled the recording, or left before it was complete."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one connection, which has `listening_seconds` until `end`."""

    max_bytes: int
    max_messages: int
    listening_seconds: float


class HeldBytes:
    """The number of bytes of recordings that all connections hold in memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yield the counter of one connection; it raises RecordingRefusedError at the limit."""
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


@dataclass(slots=True)
class RecordingIntake:
    """The intake of one recording, message by message; `hold` counts its bytes."""

    receive: Callable[[], Awaitable[str | bytes]]
    limits: ConnectionLimits
    hold: Callable[[int], None]
    data: bytearray = field(default_factory=bytearray)
    _messages: int = 0

    async def start(self) -> StartRecording:
        """Wait for the first message; raises like `receive_recording`."""
        message = await self._next(protocol.START_SECONDS)
        if isinstance(message, StartRecording):
            return message
        raise RecordingRefusedError(Close.MALFORMED, "the first message must be `start`")

    async def receive_recording(self, on_piece: Callable[[bytes], Awaitable[None]]) -> EndRecording:
        """Receive the recording up to `end`.

        Raises RecordingRefusedError if the client does not keep to the protocol or its limits, and
        NoRecordingError.
        """
        try:
            async with asyncio.timeout(self.limits.listening_seconds):
                while True:
                    message = await self._next(protocol.IDLE_SECONDS)
                    if isinstance(message, EndRecording):
                        return message
                    if isinstance(message, CancelRecording):
                        raise NoRecordingError
                    if isinstance(message, StartRecording):
                        raise RecordingRefusedError(Close.MALFORMED, "there is only one `start`")
                    if len(self.data) + len(message) > self.limits.max_bytes:
                        raise RecordingRefusedError(
                            Close.TOO_LARGE, f"more than {self.limits.max_bytes} bytes came"
                        )
                    self.hold(len(message))
                    self.data += message
                    await on_piece(message)
        except TimeoutError:
            raise RecordingRefusedError(Close.TOO_SLOW, "`end` did not come in time") from None

    def is_complete(self, end: EndRecording) -> bool:
        """Return whether all bytes have come, and unchanged."""
        return len(self.data) == end.bytes and hashlib.sha256(self.data).hexdigest() == end.sha256

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


class MessageSender:
    """A sender of messages with a task of its own; use it as an async context manager.

    A client that reads slowly delays only its own messages. Messages that may be left out do not
    even wait for it, so a sender holds little more than the result.
    """

    def __init__(self, send: Callable[[str | bytes], Awaitable[None]]) -> None:
        self._send = send
        self._messages: asyncio.Queue[str | bytes] = asyncio.Queue()
        self._unsent = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._send_all())
        return self

    async def __aexit__(self, *_exception: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def send(self, message: str | bytes) -> None:
        self._unsent += 1
        self._messages.put_nowait(message)

    def send_if_idle(self, message: str | bytes) -> bool:
        """Send a message only if nothing else waits to be sent; return whether it is sent."""
        if self._unsent:
            return False
        self.send(message)
        return True

    async def flush(self, seconds: float) -> None:
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


class ClientAnswer:
    """The answer to one client about its recording, which it must upload unless it `is_stored`."""

    def __init__(self, sender: MessageSender) -> None:
        self._sender = sender
        self.is_stored = False
        self.is_complete = False

    def send_sound(self, encoded: EncodedResult) -> None:
        for message in protocol.converted(encoded.data, encoded.content_type):
            self._sender.send(message)

    def send_end(self, voice: Voice) -> None:
        self.is_complete = True
        if voice.error is not None:
            error = voice.error
            self._sender.send(protocol.message("failed", code=error.code, message=error.message))
        else:
            self._sender.send(protocol.message("done", **conversion_answer(voice)))

    def send_retry(self, reason: RetryReason) -> None:
        """Say that this connection brings no result; a recording not stored must be uploaded."""
        self._sender.send(protocol.message("retry", reason=reason.value, stored=self.is_stored))

    def send_retry_after(self, error: Exception) -> None:
        """Tell the client that this connection will not bring the result, unless it has it."""
        if self.is_complete:
            # The event of the upload comes again and empties the recording.
            _LOG.warning("not tidied up: %s", error, extra={"event": "live_untidy"})
            return
        extra: dict[str, Any] = {"event": "live_retry", "stored": self.is_stored}
        if isinstance(error, PassingError | ObjectExistsError):
            _LOG.warning("not converted here: %s", error, extra=extra)
        else:
            _LOG.error("not converted here", exc_info=error, extra=extra)
        reason = RetryReason.UNAVAILABLE
        if isinstance(error, ObjectExistsError):
            self.is_stored, reason = True, RetryReason.ALREADY_UPLOADED
        elif isinstance(error, AbandonedError):
            reason = RetryReason.RESTARTING
        elif isinstance(error, OverloadedError):
            reason = RetryReason.BUSY
        self.send_retry(reason)
