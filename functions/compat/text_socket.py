"""Text in pieces over a WebSocket: `voice-avatar.speech.v1` of docs/compatible-apis.md."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from functions.compat.service.encoders import FORMATS_WITHOUT_FILE
from functions.compat.service.http_messages import ConnectionActivity
from functions.compat.service.keys import LimitReachedError, Meter, key_owner_of
from functions.compat.service.texts import TextUtterance, speak_text_stream
from shared.runtime.push import OverloadedError
from shared.speech.engines.text_interface import SpeechOptions, TextError

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from functions.compat.service.encoders import SoundFormat
    from functions.compat.service.synthesis import Synthesis
    from functions.compat.service.texts import TextSpeaker, TextSpeakers


PATH: Final = "/speech"
PATHS: Final = (PATH,)
SUBPROTOCOL: Final = "voice-avatar.speech.v1"


class MessageError(Exception):
    """A message that is not part of the protocol."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BeginUtterance(_Message):
    type: Literal["begin"]
    voice: Annotated[str, Field(max_length=200)] | None = None
    format: str = "pcm_24000"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    pitch: Annotated[float, Field(ge=-12.0, le=12.0)] = 0.0
    intonation: Annotated[float, Field(ge=0.0, le=2.0)] = 1.0
    volume: Annotated[float, Field(ge=0.0, le=2.0)] = 1.0
    pauses: Annotated[float, Field(ge=0.0, le=3.0)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    marks: bool = False


class AppendText(_Message):
    type: Literal["text"]
    text: str


class EndText(_Message):
    """Speaks the rest of the text so far, ends the text, or stops speaking at once."""

    type: Literal["flush", "end", "cancel"]


Message = BeginUtterance | AppendText | EndText
_MESSAGES: Final[TypeAdapter[Message]] = TypeAdapter(
    Annotated[Message, Field(discriminator="type")]
)


def read_message(content: str | bytes | None) -> Message:
    """Read a message; raise MessageError for any other content."""
    if not isinstance(content, str):
        raise MessageError("Expected messages of text.")
    try:
        return _MESSAGES.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise MessageError(f"{place}: {first['msg']}." if place else f"{first['msg']}.") from error


_LOG = logging.getLogger(__name__)

IDLE_SECONDS: Final = 300.0
MOST_WAITING: Final = 8  # the most texts of one client that are spoken or wait
MOST_CONNECTIONS: Final = 64  # with one more, the silent one that is idle longest is ended
_PIECE_BYTES: Final = 16 << 10
_LOOK_SECONDS: Final = 0.5
_WRONG_SUBPROTOCOL, _POLICY, _RESTARTS, _TRY_AGAIN = 1002, 1008, 1012, 1013


class SpeechSession:
    def __init__(self, sockets: SpeechSockets, websocket: WebSocket) -> None:
        self.owner = key_owner_of(websocket.scope)
        self.activity = ConnectionActivity()
        self._sockets, self._voices = sockets, sockets.voices
        self._websocket = websocket
        self._utterance: TextUtterance | None = None
        self._speaking: list[asyncio.Task[None]] = []
        self._serving = asyncio.current_task()
        self._is_lost = False
        self._ending: tuple[str, str, int] | None = None

    @property
    def is_quiet(self) -> bool:
        return self._utterance is None and all(task.done() for task in self._speaking)

    def end(self, code: str, message: str, close: int) -> None:
        self._ending = code, message, close
        if self._serving is not None:
            self._serving.cancel()

    async def serve(self) -> None:
        try:
            while True:
                self.activity.note_message()
                async with asyncio.timeout(self._sockets.idle_seconds):
                    message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._receive(read_message(message.get("text") or message.get("bytes")))
        except MessageError as error:
            await self._close("bad_message", str(error), _POLICY)
        except TimeoutError:
            await self._close("idle", "Nothing has come for too long.", _POLICY)
        except (WebSocketDisconnect, OSError):
            _LOG.info("a client of %s is gone", SUBPROTOCOL)
        except asyncio.CancelledError:
            is_ours = self._is_lost or self._ending is not None
            if not is_ours or self._serving is None:
                raise
            self._serving.uncancel()
            if self._ending is not None:
                await self._close(*self._ending)
        finally:
            await self._stop()

    async def _receive(self, message: Message) -> None:
        if isinstance(message, BeginUtterance):
            await self._begin(message)
        elif message.type == "cancel":
            await self._stop()
            await self._send("cancelled")
        elif self._utterance is None:
            return  # the client has not heard yet that its utterance was refused
        elif message.type == "end":
            self._utterance.end()
            self._utterance = None
        elif message.type == "flush":
            self._utterance.flush()
        else:
            try:
                self._utterance.push(message.text)
            except TextError as error:
                await self._stop()
                await self._send_error(error.code.value, error.message)

    async def _begin(self, asked: BeginUtterance) -> None:
        if self._utterance is not None:
            raise MessageError("Send 'end' or 'cancel' before the next 'begin'.")
        self._speaking = [task for task in self._speaking if not task.done()]
        if len(self._speaking) >= MOST_WAITING:
            raise MessageError("Too many texts wait to be spoken; wait for 'ended'.")
        voice = self._voices.default if asked.voice is None else self._voices.find(asked.voice)
        sound = FORMATS_WITHOUT_FILE.get(asked.format)
        if voice is None:
            message = f"There is no such voice; choose one of {self._voices.ids}."
            await self._send_error("unknown_voice", message)
        elif sound is None:
            known = ", ".join(FORMATS_WITHOUT_FILE)
            message = f"There is no such format; choose one of {known}."
            await self._send_error("unknown_format", message)
        else:
            await self._send(
                "begun", voice=voice.id, format=asked.format, sample_rate=sound.sample_rate
            )
            self._utterance = TextUtterance()
            before = set(self._speaking)
            speaking = self._speak(self._utterance, voice, asked, sound, before)
            self._speaking.append(asyncio.create_task(speaking))

    async def _speak(
        self,
        utterance: TextUtterance,
        voice: TextSpeaker,
        asked: BeginUtterance,
        sound: SoundFormat,
        before: set[asyncio.Task[None]],
    ) -> None:
        if before:
            await asyncio.wait(before)
        try:
            await self._send_speech(utterance, voice, asked, sound)
        except (TextError, LimitReachedError, OverloadedError) as error:
            if self._utterance is utterance:
                self._utterance = None
            if isinstance(error, TextError):
                await self._send_error(error.code.value, error.message)
            elif isinstance(error, LimitReachedError):
                await self._send_error("limit_reached", str(error))
            else:
                await self._send_error("busy", "The service is busy; try again later.")
        except (WebSocketDisconnect, OSError, RuntimeError):
            _LOG.info("a client of %s is gone, or does not read", SUBPROTOCOL)
            self._is_lost = True
            if self._serving is not None:
                self._serving.cancel()

    async def _send_speech(
        self, text: TextUtterance, voice: TextSpeaker, asked: BeginUtterance, sound: SoundFormat
    ) -> None:
        seconds, meter = 0.0, self._sockets.meter
        options = SpeechOptions(**asked.model_dump(exclude={"type", "voice", "format", "marks"}))
        spoken = speak_text_stream(
            self._sockets.synthesis,
            voice,
            text.sentences(),
            options,
            sound,
            client=self.owner,
            with_marks=asked.marks,
            count=lambda size: meter.count(self.owner, "speech", characters=size),
        )
        async with aclosing(spoken) as pieces:
            async for piece in pieces:
                self.activity.note_sound()
                told, begin = piece.sentence, round(piece.begin, 3)
                if piece.unread:
                    await self._send("unread", text=told, begin=begin, unread=piece.unread)
                elif told is not None:
                    await self._send("sentence", text=told, begin=begin)
                if piece.marks:
                    marks = [
                        {mark.kind: mark.text, "begin": round(mark.begin, 3)}
                        for mark in piece.marks
                    ]
                    await self._send("marks", marks=marks)
                for place in range(0, len(piece.sound), _PIECE_BYTES):
                    await self._websocket.send_bytes(piece.sound[place : place + _PIECE_BYTES])
                seconds = piece.begin + len(piece.sound) / sound.bytes_per_second
        await self._send("ended", seconds=round(seconds, 3))

    async def _stop(self) -> None:
        self._utterance = None
        for task in self._speaking:
            task.cancel()
        await asyncio.gather(*self._speaking, return_exceptions=True)
        self._speaking = []

    async def _send(self, kind: str, **fields: Any) -> None:
        content = json.dumps({"type": kind, **fields}, ensure_ascii=False)
        await self._websocket.send_text(content)

    async def _send_error(self, code: str, message: str) -> None:
        with suppress(WebSocketDisconnect, OSError, RuntimeError):
            await self._send("error", code=code, message=message)

    async def _close(self, code: str, message: str, close: int) -> None:
        await self._send_error(code, message)
        with suppress(WebSocketDisconnect, OSError, RuntimeError):
            await self._websocket.close(close, code)


class SpeechSockets:
    def __init__(
        self,
        voices: TextSpeakers,
        synthesis: Synthesis,
        most: int = MOST_CONNECTIONS,
        idle_seconds: float = IDLE_SECONDS,
        meter: Meter | None = None,
    ) -> None:
        self.meter = meter or Meter()
        self.voices = voices
        self.synthesis = synthesis
        self.idle_seconds = idle_seconds
        self._most = most
        self._open: set[SpeechSession] = set()

    async def serve(self, websocket: WebSocket) -> None:
        if SUBPROTOCOL not in websocket.scope["subprotocols"]:
            await websocket.close(_WRONG_SUBPROTOCOL, f"offer {SUBPROTOCOL}")
            return
        await websocket.accept(SUBPROTOCOL)
        session = SpeechSession(self, websocket)
        if not self._make_room_for(session):
            await websocket.close(_TRY_AGAIN, "busy")
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
                    message = "The service restarts; connect again."
                    session.end("restarts", message, _RESTARTS)
            await asyncio.sleep(_LOOK_SECONDS)

    def _make_room_for(self, session: SpeechSession) -> bool:
        """Make room for a connection, if there is none; False if all others hear something.

        A client with a key has half of the places at most.
        """
        own = {each for each in self._open if session.owner and each.owner == session.owner}
        is_greedy = bool(own) and len(own) >= max(1, self._most // 2)
        if not is_greedy and len(self._open) < self._most:
            return True
        longest = min(own if is_greedy else self._open, key=lambda each: each.activity.rank)
        if longest.activity.hears:
            return False
        self._open.remove(longest)
        longest.end("busy", "Others needed the connection's place.", _TRY_AGAIN)
        return True


def build(sockets: SpeechSockets) -> Starlette:
    return Starlette(routes=[WebSocketRoute(PATH, sockets.serve)])
