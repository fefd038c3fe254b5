"""One connection: a recording comes, is converted, and its result goes back."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.live import protocol
from functions.live.conversion import CompleteRecording
from functions.live.messages import ClientAnswer, RecordingRefusedError
from functions.live.protocol import Close, RetryReason
from shared.runtime.logs import about_voice
from shared.voices.store import UnknownVoiceError
from shared.voices.tickets import TicketRefusedError
from shared.voices.voice import PassingError, Status

if TYPE_CHECKING:
    from functions.live.conversion import LiveConversion
    from functions.live.messages import MessageSender, RecordingIntake
    from functions.live.stream import RecordingStream, RecordingStreams
    from shared.voices.store import Snapshot, VoiceStore
    from shared.voices.tickets import Tickets
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionDependencies:
    """The collaborators of all sessions; without streams recordings wait for their end."""

    tickets: Tickets
    voices: VoiceStore
    conversion: LiveConversion
    max_seconds: float
    streams: RecordingStreams | None = None


class Session:
    def __init__(
        self, shared: SessionDependencies, intake: RecordingIntake, sender: MessageSender
    ) -> None:
        self._shared = shared
        self._intake = intake
        self._sender = sender
        self._answer = ClientAnswer(sender)
        self._read_at = 0.0
        self._wants_to_hear = False
        self._stream: RecordingStream | None = None
        self._reported_at = 0.0

    async def receive_recording(self) -> CompleteRecording | None:
        """Receive the recording, or tell the client to upload it; raises like the intake."""
        start = await self._intake.start()
        try:
            voice_id = self._shared.tickets.verify(start.ticket)
        except TicketRefusedError as error:
            raise RecordingRefusedError(Close.TICKET_REFUSED, str(error)) from error
        with about_voice(voice_id):
            self._wants_to_hear = start.hear and self._shared.streams is not None
            ready = protocol.message(
                "ready",
                max_bytes=self._intake.limits.max_bytes,
                max_seconds=self._shared.max_seconds,
                hear=self._wants_to_hear,
            )
            self._sender.send(ready)

            async def read() -> Snapshot:
                snapshot = await self._shared.voices.read(voice_id)
                self._read_at = asyncio.get_running_loop().time()
                return snapshot

            async def take_piece(piece: bytes) -> None:
                now = asyncio.get_running_loop().time()
                if now - self._reported_at >= protocol.RECEIVED_SECONDS and self._send_received():
                    self._reported_at = now
                # If the store did not answer, `end` will show it.
                if reading.done() and not isinstance(reading.exception(), PassingError):
                    self._feed_stream((await require_waiting(reading)).voice, piece)

            recording, reading = None, asyncio.create_task(read())
            try:
                end = await self._intake.receive_recording(take_piece)
                if self._stream is not None:
                    self._stream.end()
                if not self._intake.is_complete(end):
                    _LOG.warning("bytes are missing", extra={"event": "live_mismatch"})
                    self._answer.send_retry(RetryReason.MISMATCH)
                    return None
                voice, data = await require_waiting(reading), bytes(self._intake.data)
                recording = CompleteRecording(
                    voice, self._read_at, data, start.content_type, self._stream
                )
            except PassingError as error:
                self._answer.send_retry_after(error)
            finally:
                if recording is None:
                    self._close_stream()
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            return recording

    async def convert(self, recording: CompleteRecording) -> None:
        """Convert the recording and send the outcome; raises RecordingRefusedError for no voice."""
        with about_voice(recording.voice.voice.voice_id):

            async def repeat_received() -> None:
                while True:
                    await asyncio.sleep(protocol.HEARTBEAT_SECONDS)
                    if not self._answer.is_complete:
                        self._send_received()

            heartbeat = asyncio.create_task(repeat_received())
            try:
                voice = await self._shared.conversion.convert(recording, self._answer)
            except Exception as error:  # noqa: BLE001 - the upload path remains, whatever the error
                self._answer.send_retry_after(error)
                return
            finally:
                heartbeat.cancel()
                self._close_stream()
            if voice is None:
                raise RecordingRefusedError(Close.UNKNOWN_VOICE)

    def _send_received(self) -> bool:
        received = protocol.message("received", bytes=len(self._intake.data))
        return self._sender.send_if_idle(received)

    def _feed_stream(self, voice: Voice, piece: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(piece)
        elif self._shared.streams is not None:
            send = self._sender.send_if_idle if self._wants_to_hear else None
            self._stream = self._shared.streams.open(voice, send)
            self._stream.feed(bytes(self._intake.data))

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()


async def require_waiting(reading: asyncio.Task[Snapshot]) -> Snapshot:
    """Return the voice that is being read, if it waits for its recording."""
    try:
        snapshot = await reading
    except UnknownVoiceError as error:
        raise RecordingRefusedError(Close.UNKNOWN_VOICE) from error
    if snapshot.voice.status is not Status.WAITING:
        raise RecordingRefusedError(Close.ALREADY_UPLOADED)
    return snapshot
