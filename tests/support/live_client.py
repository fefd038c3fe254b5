"""A client of `live`: it speaks the protocol with the library `websockets` and nothing of ours."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType
    from typing import Self

SUBPROTOCOL = Subprotocol("voice-avatar.live.v1")
PIECE = 500
ENDS = frozenset({"done", "failed", "retry"})


@dataclass
class LiveClient:
    """One connection.

    Attributes:
        url: where the service listens.
        ticket: from `POST /api/v1/voices`.
        messages: the control messages that came.
        sound: the binary messages that came, together.
        close: code and reason with which the server closed, None if the connection broke.
    """

    url: str
    ticket: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    sound: bytes = b""
    close: tuple[int, str] | None = None

    async def __aenter__(self) -> Self:
        self._connecting = connect(self.url, subprotocols=[SUBPROTOCOL])
        self._socket = await self._connecting.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connecting.__aexit__(kind, error, trace)

    async def say(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **fields}))

    async def send(self, data: bytes) -> None:
        await self._socket.send(data)

    async def start(self, content_type: str = "audio/webm") -> None:
        await self.say("start", ticket=self.ticket, content_type=content_type)

    async def speak(self, recording: bytes, content_type: str = "audio/webm") -> None:
        """Send a whole recording."""
        await self.start(content_type)
        for begin in range(0, len(recording), PIECE):
            await self.send(recording[begin : begin + PIECE])
        digest = hashlib.sha256(recording).hexdigest()
        await self.say("end", bytes=len(recording), sha256=digest)

    async def end(self) -> dict[str, Any] | None:
        """Return the last message; None if the connection ended without one."""
        async for told in self.answers():
            if told["type"] in ENDS:
                return told
        return None

    async def answers(self) -> AsyncIterator[dict[str, Any]]:
        """Yield every control message until the connection ends."""
        try:
            async for message in self._socket:
                if isinstance(message, bytes):
                    self.sound += message
                else:
                    told = json.loads(message)
                    self.messages.append(told)
                    yield told
        except ConnectionClosed:
            pass
        if self._socket.close_code not in {None, 1006}:
            self.close = (int(self._socket.close_code or 0), self._socket.close_reason or "")
