"""The WebSocket of `voice-avatar.speech.v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import WebSocketRoute

from functions.compat.keys.metering import Meter
from functions.compat.running.protocol import PATH, SUBPROTOCOL
from functions.compat.running.session import IDLE_SECONDS, SpeechSession

if TYPE_CHECKING:
    from http import HTTPStatus

    from starlette.websockets import WebSocket

    from functions.compat.speech.synthesis import Synthesis
    from functions.compat.speech.voices import TextVoices

PATHS: Final = (PATH,)
MOST_CONNECTIONS: Final = 64
_WRONG_SUBPROTOCOL, _BUSY = 1002, 1013


class SpeechSockets:
    """Takes connections.

    Args:
        voices: that speak.
        synthesis: that speaks; bounded.
        most: how many connections may be open at once.
        idle_seconds: after how long without a message a connection ends.
        meter: counts what each key has; None for one without limits.
    """

    def __init__(
        self,
        voices: TextVoices,
        synthesis: Synthesis,
        most: int = MOST_CONNECTIONS,
        idle_seconds: float = IDLE_SECONDS,
        meter: Meter | None = None,
    ) -> None:
        self._meter = meter or Meter()
        self._voices = voices
        self._synthesis = synthesis
        self._most = most
        self._idle_seconds = idle_seconds
        self._open = 0

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one connection."""
        if SUBPROTOCOL not in websocket.scope["subprotocols"]:
            await websocket.close(_WRONG_SUBPROTOCOL, f"offer {SUBPROTOCOL}")
            return
        await websocket.accept(SUBPROTOCOL)
        if self._open >= self._most:
            await websocket.close(_BUSY, "busy")
            return
        self._open += 1
        try:
            session = SpeechSession(
                websocket, self._voices, self._synthesis, self._idle_seconds, self._meter
            )
            await session.serve()
        finally:
            self._open -= 1


def build(sockets: SpeechSockets) -> Starlette:
    """Build the application."""
    return Starlette(routes=[WebSocketRoute(PATH, sockets.serve)])


def refuse(status: HTTPStatus, message: str) -> Response:
    """Answer a refusal of the connection."""
    return JSONResponse({"detail": message}, status)
