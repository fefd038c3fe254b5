"""A visitor whose recording goes to `live` while it is made, with the library `websockets`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType
    from typing import Self

SUBPROTOCOL: Final = Subprotocol("voice-avatar.live.v1")
PIECE: Final = 500
"""How many bytes are sent at a time; a recorder gives about as many each 60 ms."""

FIRST_SAMPLE_BYTES: Final = 4

OPENING_SECONDS: Final = 10.0
CLOSING_SECONDS: Final = 5.0
PING_SECONDS: Final = 7.0
"""How often the server is asked for a sign of life, and how long it may take to give one."""

ANSWER_SECONDS: Final = 600.0
"""How long the last message may take after the end of the recording."""

ENDS: Final = frozenset({"done", "failed", "retry"})
_BROKEN: Final = 1006


@dataclass(frozen=True, slots=True)
class HeardPiece:
    """Sound of the character that came while the visitor spoke.

    Attributes:
        first: the number of its first sample, at 24 kHz since the beginning of the recording.
        samples: 16 bits each, little-endian.
        came_at: on the clock `time.perf_counter`.
    """

    first: int
    samples: bytes
    came_at: float


@dataclass
class LiveVisitor:
    """One connection; use it as an async context manager.

    Attributes:
        url: where the service listens.
        ticket: from `POST /api/v1/voices`.
        hear: whether to hear the character while speaking.
        heard: what was heard so.
        messages: the control messages that came.
        sound: the binary messages of the result, together.
        close: code and reason with which the server closed, None if the connection broke.
        came_at: when a message of each type came first, and `sound` when all of it was there; in
            seconds on the clock `time.perf_counter`.
    """

    url: str
    ticket: str
    hear: bool = False
    heard: list[HeardPiece] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    sound: bytes = b""
    close: tuple[int, str] | None = None
    came_at: dict[str, float] = field(default_factory=dict)
    _sent: bytearray = field(default_factory=bytearray)
    _sound_bytes: int = 0

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            OSError, websockets.exceptions.InvalidHandshake: the server does not take part.
        """
        self._connecting = connect(
            self.url,
            subprotocols=[SUBPROTOCOL],
            open_timeout=OPENING_SECONDS,
            # A connection that the network forgot ends, and with it whoever waits for an answer.
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            close_timeout=CLOSING_SECONDS,
        )
        self._socket = await self._connecting.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        await self._connecting.__aexit__(kind, error, trace)

    async def start(self, content_type: str = "audio/webm") -> None:
        """Send `start`."""
        await self._say("start", ticket=self.ticket, content_type=content_type, hear=self.hear)

    async def send(self, piece: bytes) -> None:
        """Send a piece of the recording."""
        self._sent += piece
        await self._socket.send(piece)

    def abort(self) -> None:
        """End the connection without saying so, as a device does that lost its network."""
        self._socket.transport.abort()

    async def finish(self) -> None:
        """Send `end`."""
        digest = hashlib.sha256(self._sent).hexdigest()
        await self._say("end", bytes=len(self._sent), sha256=digest)

    async def speak(
        self,
        recording: bytes,
        content_type: str = "audio/webm",
        *,
        seconds: float = 0.0,
        piece: int = PIECE,
    ) -> None:
        """Send a whole recording, spread evenly over so many seconds.

        Args:
            recording: a file.
            content_type: its media type.
            seconds: how long it takes.
            piece: how many bytes are sent at a time.
        """
        await self.start(content_type)
        begin, loop = asyncio.get_running_loop().time(), asyncio.get_running_loop()
        for sent in range(0, len(recording), piece):
            due = begin + seconds * sent / len(recording)
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self.send(recording[sent : sent + piece])
        await asyncio.sleep(max(0.0, begin + seconds - loop.time()))
        await self.finish()

    async def end(self) -> dict[str, Any] | None:
        """Return the last message; None if the connection ended without one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                async for told in self.answers():
                    if told["type"] in ENDS:
                        return told
        return None

    async def answers(self) -> AsyncIterator[dict[str, Any]]:
        """Yield every control message until the connection ends."""
        try:
            async for message in self._socket:
                if isinstance(message, bytes):
                    self._hear(message)
                else:
                    yield self._note(json.loads(message))
        except ConnectionClosed:
            pass
        if self._socket.close_code not in {None, _BROKEN}:
            self.close = (int(self._socket.close_code or 0), self._socket.close_reason or "")

    async def _say(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **fields}))

    def _note(self, told: dict[str, Any]) -> dict[str, Any]:
        self.came_at.setdefault(told["type"], time.perf_counter())
        self.messages.append(told)
        if told["type"] == "converted":
            self._sound_bytes = told["bytes"]
        return told

    def _hear(self, piece: bytes) -> None:
        if "converted" not in self.came_at:
            first = int.from_bytes(piece[:FIRST_SAMPLE_BYTES], "little")
            samples = piece[FIRST_SAMPLE_BYTES:]
            self.heard.append(HeardPiece(first, samples, time.perf_counter()))
            return
        self.sound += piece
        if self._sound_bytes and len(self.sound) >= self._sound_bytes:
            self.came_at.setdefault("sound", time.perf_counter())
