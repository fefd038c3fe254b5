"""The WebSocket of `voice-avatar.speech.v1`."""

from __future__ import annotations

import asyncio
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
"""With one more, one is ended on which nothing is heard, and nothing has come for longest."""

_WRONG_SUBPROTOCOL, _BUSY = 1002, 1013
_LOOK_SECONDS: Final = 0.5


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
        self._open: set[SpeechSession] = set()

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one connection."""
        if SUBPROTOCOL not in websocket.scope["subprotocols"]:
            await websocket.close(_WRONG_SUBPROTOCOL, f"offer {SUBPROTOCOL}")
            return
        await websocket.accept(SUBPROTOCOL)
        session = SpeechSession(
            websocket, self._voices, self._synthesis, self._idle_seconds, self._meter
        )
        if not self._has_room_for(session):
            await websocket.close(_BUSY, "busy")
            return
        self._open.add(session)
        try:
            await session.serve()
        finally:
            self._open.discard(session)

    async def retire(self) -> None:
        """End each connection as soon as nothing is spoken on it, until this is cancelled."""
        while True:
            for session in self._open:
                if session.is_quiet:
                    session.go_elsewhere()
            await asyncio.sleep(_LOOK_SECONDS)

    def _has_room_for(self, session: SpeechSession) -> bool:
        """Make room for a connection, if there is none; False if all others hear something.

        A client with a key has half of the places at most.
        """
        own = {each for each in self._open if session.client and each.client == session.client}
        is_greedy = bool(own) and len(own) >= max(1, self._most // 2)
        if not is_greedy and len(self._open) < self._most:
            return True
        longest = min(own if is_greedy else self._open, key=lambda each: each.life.claim)
        if longest.life.hears:
            return False
        self._open.remove(longest)
        longest.make_room()
        return True


def build(sockets: SpeechSockets) -> Starlette:
    """Build the application."""
    return Starlette(routes=[WebSocketRoute(PATH, sockets.serve)])


def refuse(status: HTTPStatus, message: str) -> Response:
    """Answer a refusal of the connection."""
    return JSONResponse({"detail": message}, status)
