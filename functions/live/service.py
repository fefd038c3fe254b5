"""The connections of one instance: their admission, their sessions, and their end when it stops."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocketDisconnect

from functions.live import protocol
from functions.live.conversion import CompleteRecording
from functions.live.messages import (
    ClientAnswer,
    ConnectionLimits,
    HeldBytes,
    MessageSender,
    NoRecordingError,
    RecordingIntake,
    RecordingRefusedError,
)
from functions.live.protocol import SUBPROTOCOL, Close, RetryReason
from shared.runtime.limits import NoPlaceError, PlacesPerClient
from shared.runtime.logs import about_voice
from shared.runtime.origins import is_allowed_origin
from shared.voices.store import UnknownVoiceError
from shared.voices.tickets import TicketRefusedError
from shared.voices.voice import PassingError, Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from starlette.websockets import WebSocket

    from functions.live.conversion import LiveConversion
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

    async def convert(self, recording: CompleteRecording) -> bool:
        """Convert the recording and send the outcome; return whether there is such a voice."""
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
                return True
            finally:
                heartbeat.cancel()
                self._close_stream()
            return voice is not None

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


FLUSH_SECONDS: Final = 10.0  # the time that a client has to read the rest of its answers

# The wait for the client's part of the closing handshake. If the server ended the connection while
# bytes of the client are on their way, the system would reset it, and the reason might be lost.
CLOSING_SECONDS: Final = 1.0


class ConnectionAdmission:
    """The admission of connections by their origin, their protocol and their number."""

    def __init__(
        self, allowed_origins: Collection[str], sockets: int, per_client: PlacesPerClient
    ) -> None:
        self._allowed_origins = frozenset(allowed_origins)
        self.places_left = sockets
        self._per_client = per_client

    def refusal(self, websocket: WebSocket) -> PlainTextResponse | None:
        """Return the answer to a handshake that is refused, None if it is accepted."""
        headers = websocket.headers
        origin = headers.get("origin")
        # Browsers always send it; a program, which sends none, needs no page's permission.
        if origin is not None and not is_allowed_origin(
            origin, headers.get("host"), self._allowed_origins
        ):
            text = "Pages of this site may not open a connection; ask the operator to allow it."
            return PlainTextResponse(text, 403)
        if SUBPROTOCOL not in websocket.scope["subprotocols"]:
            return PlainTextResponse(f"Ask for the subprotocol {SUBPROTOCOL}.", 400)
        return None

    @contextmanager
    def place(self, websocket: WebSocket) -> Iterator[None]:
        """Count a connection while it is open; raise RecordingRefusedError without a place."""
        if not self.places_left:
            raise RecordingRefusedError(Close.BUSY, "all connections are taken")
        try:
            with self._per_client.hold_place(websocket):
                self.places_left -= 1
                try:
                    yield
                finally:
                    self.places_left += 1
        except NoPlaceError as error:
            raise RecordingRefusedError(Close.BUSY, str(error)) from error


class LiveService:
    """The connections of one instance, each within limits, which hold their bytes together."""

    def __init__(
        self,
        admission: ConnectionAdmission,
        limits: ConnectionLimits,
        held_bytes: HeldBytes,
        shared: SessionDependencies,
    ) -> None:
        self._admission = admission
        self._limits = limits
        self._held_bytes = held_bytes
        self._shared = shared
        self._is_draining = False
        self._receptions: set[asyncio.Task[CompleteRecording | None]] = set()
        self._conversions: set[asyncio.Task[bool]] = set()

    async def serve(self, websocket: WebSocket) -> None:
        refusal = self._admission.refusal(websocket)
        if refusal is not None:
            await websocket.send_denial_response(refusal)
            return
        await websocket.accept(subprotocol=SUBPROTOCOL)
        close = await self._serve_accepted(websocket)
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await websocket.close(close.code, close.reason)
                while (await websocket.receive())["type"] != "websocket.disconnect":
                    pass

    async def drain(self, seconds: float) -> None:
        """Refuse new recordings, end those that still come, and wait for the answers under way."""
        self._is_draining = True
        for task in tuple(self._receptions):
            task.cancel()
        if self._conversions:
            await asyncio.wait(tuple(self._conversions), timeout=seconds)

    async def _serve_accepted(self, websocket: WebSocket) -> Close:
        try:
            with self._admission.place(websocket):
                await self._hold_session(websocket)
        except RecordingRefusedError as error:
            extra = {"event": "live_refused", "reason": error.close.reason}
            _LOG.info("connection refused: %s", error, extra=extra)
            return error.close
        except NoRecordingError:
            _LOG.info("no recording came", extra={"event": "live_abandoned"})
        except Exception:  # noqa: BLE001 - whatever it was, the client is told to upload
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            return Close.INTERNAL
        return Close.NORMAL

    async def _hold_session(self, websocket: WebSocket) -> None:
        async def receive() -> str | bytes:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                raise NoRecordingError
            text = message.get("text")
            return bytes(message["bytes"]) if text is None else str(text)

        async def send(message: str | bytes) -> None:
            if isinstance(message, str):
                await websocket.send_text(message)
            else:
                await websocket.send_bytes(message)

        with self._held_bytes.share() as hold:
            async with MessageSender(send) as sender:
                intake = RecordingIntake(receive, self._limits, hold)
                session = Session(self._shared, intake, sender)
                recording = await self._receive_recording(session)
                if recording is not None:
                    conversion = asyncio.create_task(session.convert(recording))
                    self._conversions.add(conversion)
                    conversion.add_done_callback(self._conversions.discard)
                    # If the server gives this connection up, the conversion still ends.
                    if not await asyncio.shield(conversion):
                        raise RecordingRefusedError(Close.UNKNOWN_VOICE)
                await sender.flush(FLUSH_SECONDS)

    async def _receive_recording(self, session: Session) -> CompleteRecording | None:
        if self._is_draining:
            raise RecordingRefusedError(Close.RESTARTING)
        reception = asyncio.create_task(session.receive_recording())
        self._receptions.add(reception)
        reception.add_done_callback(self._receptions.discard)
        try:
            return await reception
        except asyncio.CancelledError:
            if reception.cancelled() and self._is_draining:
                raise RecordingRefusedError(Close.RESTARTING) from None
            raise
