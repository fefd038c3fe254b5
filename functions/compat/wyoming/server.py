"""Serves Wyoming: Home Assistant finds the voices, and lets them speak.

The protocol knows no key. Whoever reaches the port may let the voices speak.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from functions.compat.keys.metering import LimitReachedError, Meter
from functions.compat.speech.formats import Codec, SoundFormat
from functions.compat.speech.life import Life
from functions.compat.speech.running_text import speak_running
from functions.compat.speech.synthesis import SlowReaderError
from functions.compat.wyoming.conversation import Asked, Conversation, RequestError
from functions.compat.wyoming.description import describe
from functions.compat.wyoming.events import MOST_BYTES, Event, EventError, read_event
from shared.http.push import OverloadedError
from speech.engines.interface.text_engine import SpeechOptions, TextError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator

    from functions.compat.speech.synthesis import Synthesis
    from functions.compat.speech.voices import TextVoices

_LOG = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 64
"""With one more, one is ended on which nothing is heard, and nothing has come for longest."""

IDLE_SECONDS: Final = 600.0
MOST_WAITING: Final = 8
"""How many texts of one client wait to be spoken."""

UNREAD_SECONDS: Final = 20.0
"""After how long a client loses its connection that does not read what is spoken."""

_Refusal = EventError | TextError | RequestError | OverloadedError | LimitReachedError
_PIECE_BYTES: Final = 16 << 10
_WIDTH: Final = 2
_LOOK_SECONDS: Final = 0.5


class WyomingServer:
    """Serves clients of Wyoming.

    Args:
        voices: that speak.
        synthesis: that speaks; bounded.
        meter: counts what is spoken; None for one without limits.
        unread_seconds: after how long a client loses its connection that does not read.
    """

    def __init__(
        self,
        voices: TextVoices,
        synthesis: Synthesis,
        meter: Meter | None = None,
        unread_seconds: float = UNREAD_SECONDS,
    ) -> None:
        self._meter = meter or Meter()
        self._voices = voices
        self._synthesis = synthesis
        self._unread_seconds = unread_seconds
        self._connections: dict[asyncio.Task[None], Life] = {}
        self._speaking: set[Life] = set()
        self._server: asyncio.Server | None = None

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen inside of the context; several processes may listen at one port.

        Returns:
            The port, if 0 was asked for.
        """
        can_share = port != 0 and hasattr(socket, "SO_REUSEPORT")
        server = await asyncio.start_server(
            self._serve, host, port, limit=MOST_BYTES, reuse_port=can_share or None
        )
        self._server = server
        async with server:
            found: int = server.sockets[0].getsockname()[1]
            try:
                yield found
            finally:
                for task in self._connections:
                    task.cancel()
                await asyncio.gather(*self._connections, return_exceptions=True)

    async def retire(self) -> None:
        """Listen no more, and end each connection on which nothing is spoken, until cancelled."""
        if self._server is not None:
            self._server.close()
        while True:
            for task, life in self._connections.items():
                if life not in self._speaking:
                    task.cancel()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        serving = asyncio.current_task()
        if serving is None:
            raise RuntimeError("a connection is served by a task")
        if len(self._connections) >= MOST_CONNECTIONS:
            # Whoever only holds connections keeps nobody out.
            longest = min(self._connections, key=lambda each: self._connections[each].claim)
            del self._connections[longest]
            longest.cancel()
        life = self._connections[serving] = Life()
        try:
            await self._converse(reader, writer, life)
        except ExceptionGroup as errors:
            await self._explain(errors.exceptions[0], writer)
        except asyncio.CancelledError:
            # Nobody else waits for this task: the service ends.
            writer.transport.abort()
        finally:
            self._connections.pop(serving, None)
            writer.close()

    async def _explain(self, error: Exception, writer: StreamWriter) -> None:
        """Send the error; clients that wait for sound only see that the connection ends."""
        if isinstance(error, OSError | TimeoutError | SlowReaderError):
            _LOG.info("a client of Wyoming is gone, or does not read")
            writer.transport.abort()
            return
        if not isinstance(error, _Refusal):
            raise error
        code = "bad_request"
        if isinstance(error, OverloadedError | LimitReachedError):
            code = "busy"
        with suppress(OSError, TimeoutError):
            await self._send(writer, Event("error", {"text": str(error), "code": code}))

    async def _converse(self, reader: StreamReader, writer: StreamWriter, life: Life) -> None:
        """Read and speak until the client has said everything and heard everything.

        Raises:
            ExceptionGroup: of what went wrong first.
        """
        asked: asyncio.Queue[Asked | None] = asyncio.Queue(MOST_WAITING)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen(reader, writer, asked, life))
            tasks.create_task(self._speak_all(writer, asked, life))

    async def _listen(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        asked: asyncio.Queue[Asked | None],
        life: Life,
    ) -> None:
        conversation = Conversation(self._voices)
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                event = await read_event(reader)
            life.note_message()
            # Events that are here already are read without waiting: a flood would hold the loop.
            await asyncio.sleep(0)
            if event is None:
                conversation.leave()
                await asked.put(None)
                return
            if event.type == "describe":
                await self._send(writer, describe(self._voices))
            elif event.type == "ping":
                await self._send(writer, Event("pong", {"text": event.data.get("text")}))
            elif (wish := conversation.take(event)) is not None:
                await asked.put(wish)

    async def _speak_all(
        self,
        writer: StreamWriter,
        asked: asyncio.Queue[Asked | None],
        life: Life,
    ) -> None:
        while (wish := await asked.get()) is not None:
            self._speaking.add(life)
            try:
                await self._speak(wish, writer, life)
            finally:
                self._speaking.discard(life)

    async def _speak(self, wish: Asked, writer: StreamWriter, life: Life) -> None:
        rate = wish.voice.engine.sample_rate
        form = {"rate": rate, "width": _WIDTH, "channels": 1}
        has_begun = False
        spoken = speak_running(
            self._synthesis,
            wish.voice,
            wish.text.sentences(),
            SpeechOptions(),
            SoundFormat(Codec.PCM, rate),
            whole=wish.whole,
            count=lambda size: self._meter.counting("", "wyoming", characters=size),
        )
        async with aclosing(spoken) as pieces:
            async for piece in pieces:
                life.note_sound()
                if not has_begun:
                    await self._send(writer, Event("audio-start", form))
                    has_begun = True
                for begin in range(0, len(piece.sound), _PIECE_BYTES):
                    sound = piece.sound[begin : begin + _PIECE_BYTES]
                    await self._send(writer, Event("audio-chunk", form, sound))
        if not has_begun:
            await self._send(writer, Event("audio-start", form))
        await self._send(writer, Event("audio-stop"))
        if wish.whole is None:
            await self._send(writer, Event("synthesize-stopped"))

    async def _send(self, writer: StreamWriter, event: Event) -> None:
        writer.write(event.write())
        async with asyncio.timeout(self._unread_seconds):
            await writer.drain()
