"""One connection: a recording comes, is converted, and its result goes back."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from functions.live import protocol
from functions.live.conversion import CompleteRecording, ConversionEvents
from functions.live.messages import RecordingRefusedError
from functions.live.protocol import Close, RetryReason
from shared.runtime.logs import about_voice
from shared.runtime.push import AbandonedError, OverloadedError
from shared.voices.objects import ObjectExistsError
from shared.voices.store import UnknownVoiceError, conversion_answer
from shared.voices.tickets import TicketRefusedError
from shared.voices.voice import PassingError, Status

if TYPE_CHECKING:
    from functions.live.conversion import LiveConversion
    from functions.live.messages import MessageSender, RecordingIntake
    from functions.live.protocol import StartRecording
    from functions.live.stream import RecordingStream, RecordingStreams
    from shared.conversion.stages import UnstoredResult
    from shared.voices.store import Snapshot, VoiceStore
    from shared.voices.tickets import Tickets
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionDependencies:
    """What all sessions share.

    Attributes:
        listen: listens to recordings while they come; None to wait for their end.
    """

    tickets: Tickets
    voices: VoiceStore
    conversion: LiveConversion
    max_seconds: float
    listen: RecordingStreams | None = None


class Session:
    """Serves one connection."""

    def __init__(
        self, shared: SessionDependencies, intake: RecordingIntake, outbox: MessageSender
    ) -> None:
        self._shared = shared
        self._intake = intake
        self._outbox = outbox
        self._read_at = 0.0
        self._wants_to_hear = False
        self._listening: RecordingStream | None = None
        self._told_at = 0.0
        self._is_stored = False
        self._is_answered = False

    async def listen(self) -> CompleteRecording | None:
        """Receive the recording.

        Returns:
            The recording, or None if it has to be uploaded; the client was told so.

        Raises:
            RefusedError, CancelledByVisitorError, VisitorGoneError: there is no recording.
        """
        start = await self._intake.start()
        voice_id = self._voice_of(start)
        with about_voice(voice_id):
            self._wants_to_hear = start.hear and self._shared.listen is not None
            self._outbox.put(self._ready())
            reading = asyncio.create_task(self._read(voice_id))
            recording = None
            try:
                end = await self._intake.record(partial(self._take, reading))
                if self._listening is not None:
                    self._listening.end()
                if self._intake.is_complete(end):
                    recording = await self._recording(start, reading)
                    return recording
                _LOG.warning("bytes are missing", extra={"event": "live_mismatch"})
                self._retry(RetryReason.MISMATCH)
                return None
            finally:
                if recording is None:
                    self._close_listening()
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def answer(self, recording: CompleteRecording) -> None:
        """Convert the recording and send the outcome.

        Raises:
            RefusedError: the voice was deleted meanwhile.
        """
        with about_voice(recording.voice.voice.voice_id):
            progress = ConversionEvents(self._note_stored, self._send_sound, self._send_end)
            heartbeat = asyncio.create_task(self._repeat_received())
            try:
                voice = await self._shared.conversion.convert(recording, progress)
            except Exception as error:  # noqa: BLE001 - the upload path remains, whatever the error
                self._retry_after(error)
                return
            finally:
                heartbeat.cancel()
                self._close_listening()
            if voice is None:
                raise RecordingRefusedError(Close.UNKNOWN_VOICE)

    def _voice_of(self, start: StartRecording) -> str:
        try:
            return self._shared.tickets.verify(start.ticket)
        except TicketRefusedError as error:
            raise RecordingRefusedError(Close.TICKET_REFUSED, str(error)) from error

    def _ready(self) -> str:
        return protocol.ready(
            max_bytes=self._intake.limits.max_bytes,
            max_seconds=self._shared.max_seconds,
            hear=self._wants_to_hear,
        )

    async def _read(self, voice_id: str) -> Snapshot:
        snapshot = await self._shared.voices.read(voice_id)
        self._read_at = asyncio.get_running_loop().time()
        return snapshot

    async def _take(self, reading: asyncio.Task[Snapshot], piece: bytes) -> None:
        """Take a piece of the recording, which is kept already."""
        self._tell_received()
        # If the store did not answer, `end` will show it.
        if reading.done() and not isinstance(reading.exception(), PassingError):
            self._feed((await _waiting(reading)).voice, piece)

    def _tell_received(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told_at < protocol.RECEIVED_SECONDS:
            return
        if self._outbox.offer(protocol.received(len(self._intake.data))):
            self._told_at = now

    async def _repeat_received(self) -> None:
        while True:
            await asyncio.sleep(protocol.HEARTBEAT_SECONDS)
            if not self._is_answered:
                self._outbox.offer(protocol.received(len(self._intake.data)))

    def _feed(self, voice: Voice, piece: bytes) -> None:
        if self._listening is not None:
            self._listening.feed(piece)
        elif self._shared.listen is not None:
            send = self._outbox.offer if self._wants_to_hear else None
            self._listening = self._shared.listen(voice, send)
            self._listening.feed(bytes(self._intake.data))

    def _close_listening(self) -> None:
        if self._listening is not None:
            self._listening.close()

    async def _recording(
        self, start: StartRecording, reading: asyncio.Task[Snapshot]
    ) -> CompleteRecording | None:
        try:
            voice = await _waiting(reading)
        except PassingError as error:
            self._retry_after(error)
            return None
        data = bytes(self._intake.data)
        return CompleteRecording(voice, self._read_at, data, start.content_type, self._listening)

    def _note_stored(self) -> None:
        self._is_stored = True

    def _send_sound(self, made: UnstoredResult) -> None:
        for message in protocol.converted(made.encoded.data, made.encoded.content_type):
            self._outbox.put(message)

    def _send_end(self, voice: Voice) -> None:
        self._is_answered = True
        if voice.error is not None:
            self._outbox.put(protocol.failed(voice.error.code, voice.error.message))
        else:
            self._outbox.put(protocol.done(conversion_answer(voice)))

    def _retry_after(self, error: Exception) -> None:
        if self._is_answered:
            # The event of the upload comes again and empties the recording.
            _LOG.warning("not tidied up: %s", error, extra={"event": "live_untidy"})
            return
        extra: dict[str, Any] = {"event": "live_retry", "stored": self._is_stored}
        if isinstance(error, PassingError | ObjectExistsError):
            _LOG.warning("not converted here: %s", error, extra=extra)
        else:
            _LOG.error("not converted here", exc_info=error, extra=extra)
        if isinstance(error, ObjectExistsError):
            self._is_stored = True
            self._retry(RetryReason.ALREADY_UPLOADED)
        elif isinstance(error, AbandonedError):
            self._retry(RetryReason.RESTARTING)
        elif isinstance(error, OverloadedError):
            self._retry(RetryReason.BUSY)
        else:
            self._retry(RetryReason.UNAVAILABLE)

    def _retry(self, reason: RetryReason) -> None:
        self._outbox.put(protocol.retry(reason, stored=self._is_stored))


async def _waiting(reading: asyncio.Task[Snapshot]) -> Snapshot:
    """Return the voice that is being read, if it waits for its recording."""
    try:
        snapshot = await reading
    except UnknownVoiceError as error:
        raise RecordingRefusedError(Close.UNKNOWN_VOICE) from error
    if snapshot.voice.status is not Status.WAITING:
        raise RecordingRefusedError(Close.ALREADY_UPLOADED)
    return snapshot
