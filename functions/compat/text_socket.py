"""The messages of `voice-avatar.speech.v1`; docs/compatible-apis.md describes them."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from functions.compat.service.encoders import FORMATS_WITHOUT_FILE
from functions.compat.service.http_messages import ConnectionActivity
from functions.compat.service.keys import LimitReachedError, Meter, key_owner_of, takes_turns_as
from functions.compat.service.texts import TextUtterance, speak_text_stream
from shared.runtime.push import OverloadedError
from shared.speech.engines.text_interface import SpeechOptions, TextError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from http import HTTPStatus

    from starlette.websockets import WebSocket

    from functions.compat.service.encoders import SoundFormat
    from functions.compat.service.synthesis import Synthesis
    from functions.compat.service.voices import TextSpeaker, TextSpeakers


PATH: Final = "/speech"
SUBPROTOCOL: Final = "voice-avatar.speech.v1"


class MessageError(Exception):
    """A message that cannot be taken; one sentence."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BeginUtterance(_Message):
    """Begins an utterance."""

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
    """A piece of the text."""

    type: Literal["text"]
    text: str


class FlushText(_Message):
    """Speaks what has come, although no sentence has ended."""

    type: Literal["flush"]


class EndUtterance(_Message):
    """Says that the text has ended."""

    type: Literal["end"]


class CancelUtterance(_Message):
    """Stops speaking at once."""

    type: Literal["cancel"]


Message = BeginUtterance | AppendText | FlushText | EndUtterance | CancelUtterance
_MESSAGES: Final[TypeAdapter[Message]] = TypeAdapter(
    Annotated[Message, Field(discriminator="type")]
)


def read_message(content: str | bytes | None) -> Message:
    """Read a message.

    Raises:
        MessageError: it is none.
    """
    if not isinstance(content, str):
        raise MessageError("Expected messages of text.")
    try:
        return _MESSAGES.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise MessageError(f"{place}: {first['msg']}." if place else f"{first['msg']}.") from error


def write_message(kind: str, **fields: Any) -> str:
    """Write a message to the client."""
    return json.dumps({"type": kind, **fields}, ensure_ascii=False)


_LOG = logging.getLogger(__name__)

IDLE_SECONDS: Final = 300.0
MOST_WAITING: Final = 8
"""How many texts of one client are spoken or wait for that."""

_PIECE_BYTES: Final = 16 << 10
_POLICY, _RESTARTS, _TRY_AGAIN = 1008, 1012, 1013


class SpeechSession:
    """Serves one client.

    Args:
        meter: counts what each key has; None for one without limits.

    Attributes:
        client: who takes turns with others; None if that does not matter.
    """

    def __init__(
        self,
        websocket: WebSocket,
        voices: TextSpeakers,
        synthesis: Synthesis,
        idle_seconds: float = IDLE_SECONDS,
        meter: Meter | None = None,
    ) -> None:
        owner = key_owner_of(websocket.scope)
        self._count = partial((meter or Meter()).counting, owner, "speech")
        self._websocket = websocket
        self._voices = voices
        self._synthesis = synthesis
        self._idle_seconds = idle_seconds
        self._utterance: TextUtterance | None = None
        self._speaking: list[asyncio.Task[None]] = []
        self._serving = asyncio.current_task()
        self._is_lost = False
        self._makes_room = False
        self._goes_elsewhere = False
        self.life = ConnectionActivity()
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
        if isinstance(message, BeginUtterance):
            await self._begin(message)
        elif isinstance(message, CancelUtterance):
            await self._stop()
            await self._websocket.send_text(write_message("cancelled"))
        elif self._utterance is None:
            # An utterance that was refused: what the client sent before it heard of that.
            return
        elif isinstance(message, EndUtterance):
            self._utterance.end()
            self._utterance = None
        elif isinstance(message, FlushText):
            self._utterance.flush()
        else:
            try:
                self._utterance.push(message.text)
            except TextError as error:
                await self._stop()
                await self._tell(error.code.value, error.message)

    async def _begin(self, asked: BeginUtterance) -> None:
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
            self._utterance = TextUtterance()
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
        self,
        utterance: TextUtterance,
        voice: TextSpeaker,
        asked: BeginUtterance,
        sound: SoundFormat,
    ) -> None:
        send, seconds = self._websocket.send_text, 0.0
        options = SpeechOptions(**asked.model_dump(exclude={"type", "voice", "format", "marks"}))
        spoken = speak_text_stream(
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

    async def _end_with(self, utterance: TextUtterance, code: str, message: str) -> None:
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


PATHS: Final = (PATH,)
MOST_CONNECTIONS: Final = 64
"""With one more, one is ended on which nothing is heard, and nothing has come for longest."""

_WRONG_SUBPROTOCOL, _BUSY = 1002, 1013
_LOOK_SECONDS: Final = 0.5


class SpeechSockets:
    """Takes connections.

    Args:
        meter: counts what each key has; None for one without limits.
    """

    def __init__(
        self,
        voices: TextSpeakers,
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
