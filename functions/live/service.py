"""The connections of one instance: their admission, and their end when it stops."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocketDisconnect

from functions.live.messages import (
    CancelledByVisitorError,
    ConnectionLimits,
    HeldBytes,
    MessageSender,
    RecordingIntake,
    RecordingRefusedError,
    VisitorGoneError,
)
from functions.live.protocol import SUBPROTOCOL, Close
from functions.live.session import Session
from shared.runtime.limits import NoPlaceError, PlacesPerClient
from shared.runtime.origins import is_allowed_origin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from starlette.websockets import WebSocket

    from functions.live.conversion import CompleteRecording
    from functions.live.session import SessionDependencies

_LOG = logging.getLogger(__name__)

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
        self._conversions: set[asyncio.Task[None]] = set()

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
        except (VisitorGoneError, CancelledByVisitorError):
            _LOG.info("no recording came", extra={"event": "live_abandoned"})
        except Exception:  # noqa: BLE001 - whatever it was, the client is told to upload
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            return Close.INTERNAL
        return Close.NORMAL

    async def _hold_session(self, websocket: WebSocket) -> None:
        async def receive() -> str | bytes:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                raise VisitorGoneError
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
                    await asyncio.shield(conversion)
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
