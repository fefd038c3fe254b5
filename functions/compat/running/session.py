"""One connection of `voice-avatar.speech.v1`: utterances, one after the other."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.websockets import WebSocketDisconnect

from functions.compat.keys.access import client_of, takes_turns_as
from functions.compat.keys.metering import LimitReachedError, Meter
from functions.compat.running.protocol import (
    SUBPROTOCOL,
    Begin,
    Cancel,
    End,
    Flush,
    MessageError,
    read_message,
    write_message,
)
from functions.compat.speech.formats import FORMATS_WITHOUT_FILE
from functions.compat.speech.life import Life
from functions.compat.speech.running_text import speak_running
from functions.compat.speech.utterance import Utterance
from shared.http.push import OverloadedError
from speech.engines.interface.text_engine import SpeechOptions, TextError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.websockets import WebSocket

    from functions.compat.running.protocol import Message
    from functions.compat.speech.formats import SoundFormat
    from functions.compat.speech.synthesis import Synthesis
    from functions.compat.speech.voices import TextVoice, TextVoices

_LOG = logging.getLogger(__name__)

IDLE_SECONDS: Final = 300.0
MOST_WAITING: Final = 8
"""How many texts of one client are spoken or wait for that."""

_PIECE_BYTES: Final = 16 << 10
_POLICY, _RESTARTS, _TRY_AGAIN = 1008, 1012, 1013


class SpeechSession:
    """Serves one client.

    Args:
        websocket: to the client; it has been accepted.
        voices: that speak.
        synthesis: that speaks; bounded.
        idle_seconds: after how long without a message the connection ends.
        meter: counts what each key has; None for one without limits.

    Attributes:
        life: what happens on the connection.
        client: who takes turns with others; None if that does not matter.
    """

    def __init__(
        self,
        websocket: WebSocket,
        voices: TextVoices,
        synthesis: Synthesis,
        idle_seconds: float = IDLE_SECONDS,
        meter: Meter | None = None,
    ) -> None:
        owner = client_of(websocket.scope)
        self._count = partial((meter or Meter()).counting, owner, "speech")
        self._websocket = websocket
        self._voices = voices
        self._synthesis = synthesis
        self._idle_seconds = idle_seconds
        self._utterance: Utterance | None = None
        self._speaking: list[asyncio.Task[None]] = []
        self._serving = asyncio.current_task()
        self._is_lost = False
        self._makes_room = False
        self._goes_elsewhere = False
        self.life = Life()
        self.client = takes_turns_as(websocket.scope)

    def make_room(self) -> None:
        """End the connection, because another one needs its place."""
        self._makes_room = True
        if self._serving is not None:
            self._serving.cancel()

    @property
    def is_quiet(self) -> bool:
        """Whether no text is spoken, comes or waits."""
        return self._utterance is None and all(task.done() for task in self._speaking)

    def go_elsewhere(self) -> None:
        """End the connection, because this process ends; another one serves the client."""
        self._goes_elsewhere = True
        if self._serving is not None:
            self._serving.cancel()

    async def serve(self) -> None:
        """Serve until the client leaves or sends what cannot be taken."""
        try:
            while True:
                self.life.note_message()
                async with asyncio.timeout(self._idle_seconds):
                    message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._take(read_message(message.get("text") or message.get("bytes")))
        except MessageError as error:
            await self._refuse("bad_message", str(error), _POLICY)
        except TimeoutError:
            await self._refuse("idle", "Nothing has come for too long.", _POLICY)
        except (WebSocketDisconnect, OSError):
            _LOG.info("a client of %s is gone", SUBPROTOCOL)
        except asyncio.CancelledError:
            is_ours = self._is_lost or self._makes_room or self._goes_elsewhere
            if not is_ours or self._serving is None:
                raise
            self._serving.uncancel()
            if self._goes_elsewhere:
                await self._refuse("restarts", "The service restarts; connect again.", _RESTARTS)
            elif self._makes_room:
                await self._refuse("busy", "Others needed the connection's place.", _TRY_AGAIN)
        finally:
            await self._stop()

    async def _take(self, message: Message) -> None:
        if isinstance(message, Begin):
            await self._begin(message)
        elif isinstance(message, Cancel):
            await self._stop()
            await self._websocket.send_text(write_message("cancelled"))
        elif self._utterance is None:
            # An utterance that was refused: what the client sent before it heard of that.
            return
        elif isinstance(message, End):
            self._utterance.end()
            self._utterance = None
        elif isinstance(message, Flush):
            self._utterance.flush()
        else:
            try:
                self._utterance.push(message.text)
            except TextError as error:
                await self._stop()
                await self._tell(error.code.value, error.message)

    async def _begin(self, asked: Begin) -> None:
        if self._utterance is not None:
            raise MessageError("Send 'end' or 'cancel' before the next 'begin'.")
        self._speaking = [task for task in self._speaking if not task.done()]
        if len(self._speaking) >= MOST_WAITING:
            raise MessageError("Too many texts wait to be spoken; wait for 'ended'.")
        voice = self._voices.default if asked.voice is None else self._voices.find(asked.voice)
        sound = FORMATS_WITHOUT_FILE.get(asked.format)
        if voice is None:
            known = ", ".join(each.id for each in self._voices.all())
            await self._tell("unknown_voice", f"There is no such voice; choose one of {known}.")
        elif sound is None:
            known = ", ".join(FORMATS_WITHOUT_FILE)
            await self._tell("unknown_format", f"There is no such format; choose one of {known}.")
        else:
            begun = write_message(
                "begun", voice=voice.id, format=asked.format, sample_rate=sound.sample_rate
            )
            await self._websocket.send_text(begun)
            self._utterance = Utterance()
            speaking = self._speak(self._utterance, voice, asked, sound)
            before = set(self._speaking)
            self._speaking.append(asyncio.create_task(self._after(before, speaking)))

    async def _after(
        self, before: set[asyncio.Task[None]], speaking: Coroutine[Any, Any, None]
    ) -> None:
        """Speak when what was begun before has been heard to its end."""
        try:
            if before:
                await asyncio.wait(before)
        except asyncio.CancelledError:
            speaking.close()
            raise
        await speaking

    async def _speak(
        self, utterance: Utterance, voice: TextVoice, asked: Begin, sound: SoundFormat
    ) -> None:
        send, seconds = self._websocket.send_text, 0.0
        options = SpeechOptions(**asked.model_dump(exclude={"type", "voice", "format", "marks"}))
        spoken = speak_running(
            self._synthesis,
            voice,
            utterance.sentences(),
            options,
            sound,
            client=self.client,
            with_marks=asked.marks,
            count=lambda size: self._count(characters=size),
        )
        try:
            async with aclosing(spoken) as pieces:
                async for piece in pieces:
                    self.life.note_sound()
                    if piece.sentence is not None:
                        begin = round(piece.begin, 3)
                        await send(write_message("sentence", text=piece.sentence, begin=begin))
                    if piece.marks:
                        marks = [
                            {mark.kind: mark.text, "begin": round(mark.begin, 3)}
                            for mark in piece.marks
                        ]
                        await send(write_message("marks", marks=marks))
                    for place in range(0, len(piece.sound), _PIECE_BYTES):
                        part = piece.sound[place : place + _PIECE_BYTES]
                        await self._websocket.send_bytes(part)
                    seconds = piece.begin + len(piece.sound) / sound.bytes_per_second
            await send(write_message("ended", seconds=round(seconds, 3)))
        except TextError as error:
            await self._end_with(utterance, error.code.value, error.message)
        except LimitReachedError as error:
            await self._end_with(utterance, "limit_reached", str(error))
        except OverloadedError:
            await self._end_with(utterance, "busy", "The service is busy; try again later.")
        except (WebSocketDisconnect, OSError, RuntimeError):
            _LOG.info("a client of %s is gone, or does not read", SUBPROTOCOL)
            self._is_lost = True
            if self._serving is not None:
                self._serving.cancel()

    async def _end_with(self, utterance: Utterance, code: str, message: str) -> None:
        if self._utterance is utterance:
            self._utterance = None
        await self._tell(code, message)

    async def _stop(self) -> None:
        """Stop speaking; nothing is sent after this."""
        self._utterance = None
        for task in self._speaking:
            task.cancel()
        await asyncio.gather(*self._speaking, return_exceptions=True)
        self._speaking = []

    async def _tell(self, code: str, message: str) -> None:
        """Tell of an error after which the client can begin again."""
        with suppress(WebSocketDisconnect, OSError, RuntimeError):
            await self._websocket.send_text(write_message("error", code=code, message=message))

    async def _refuse(self, code: str, message: str, close: int) -> None:
        await self._tell(code, message)
        with suppress(WebSocketDisconnect, OSError, RuntimeError):
            await self._websocket.close(close, code)
