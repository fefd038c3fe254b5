"""The routes of OpenAI's speech API."""

from __future__ import annotations

import base64
import json
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.keys.access import client_of, takes_turns_as
from functions.compat.keys.metering import Meter
from functions.compat.openai.bodies import FORMATS, MODELS, VOICES, SpeechRequest, model_body
from functions.compat.openai.errors import RequestError, exception_handlers, text_error_body
from functions.compat.speech.answers import SpokenAnswer
from functions.compat.speech.requests import read_body
from functions.compat.speech.texts import speech_of
from speech.engines.interface.text_engine import SpeechOptions, TextError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from functions.compat.speech.formats import SoundFormat
    from functions.compat.speech.synthesis import Synthesis
    from functions.compat.speech.voices import TextVoice, TextVoices

PATHS: Final = ("/v1/",)
"""All of OpenAI's API, so that its clients understand what is missing here."""

LARGEST_BODY: Final = 64 << 10


class OpenAiRoutes:
    """Speech, and the lists of what can be asked for.

    Args:
        voices: that speak.
        synthesis: that speaks; bounded.
        meter: counts what each key has.
    """

    def __init__(self, voices: TextVoices, synthesis: Synthesis, meter: Meter) -> None:
        self._voices = voices
        self._synthesis = synthesis
        self._meter = meter

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/v1/audio/speech", self._speech, methods=["POST"]),
            Route("/v1/audio/voices", self._list_voices),
            Route("/v1/audio/models", self._list_models),
            Route("/v1/models", self._list_models),
            Route("/v1/models/{model}", self._model),
        ]

    async def _speech(self, request: Request) -> Response:
        asked = SpeechRequest.model_validate_json(await read_body(request, LARGEST_BODY))
        voice, sound = self._find_voice(asked.voice_name), _find_format(asked.response_format)
        options = SpeechOptions(speed=asked.speed)
        owner = client_of(request.scope)
        async with self._meter.counting(owner, "openai", characters=len(asked.input)):
            speech = speech_of(voice, asked.input, options, sound)
            stream = await self._synthesis.stream(speech, takes_turns_as(request.scope))
        if asked.stream_format == "audio":
            return SpokenAnswer(self._synthesis, stream, sound.content_type)
        events = partial(_events, tokens=len(asked.input))
        return SpokenAnswer(self._synthesis, stream, "text/event-stream", events)

    def _find_voice(self, name: str) -> TextVoice:
        voice = self._voices.find(name)
        if voice is not None:
            return voice
        if name in VOICES:
            return self._voices.default
        known = ", ".join(each.id for each in self._voices.all())
        raise RequestError(f"There is no voice {name!r}; choose one of {known}.", "voice")

    async def _list_voices(self, _: Request) -> Response:
        voices = [_voice_body(voice) for voice in self._voices.all()]
        return JSONResponse({"object": "list", "voices": voices, "data": voices})

    async def _list_models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [model_body(name) for name in MODELS]})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name not in MODELS:
            message = f"There is no model {name!r}; choose one of {', '.join(MODELS)}."
            raise RequestError(message, "model", "model_not_found", HTTPStatus.NOT_FOUND)
        return JSONResponse(model_body(name))


def build(
    voices: TextVoices,
    synthesis: Synthesis,
    meter: Meter | None = None,
    retry_after_seconds: int = 1,
) -> Starlette:
    """Build the application.

    Args:
        voices: that speak.
        synthesis: that speaks; bounded.
        meter: counts what each key has; None for one without limits.
        retry_after_seconds: when clients may come again that are sent away with 503.
    """
    return Starlette(
        routes=OpenAiRoutes(voices, synthesis, meter or Meter()).routes(),
        exception_handlers=exception_handlers(retry_after_seconds),
    )


def _find_format(name: str) -> SoundFormat:
    sound = FORMATS.get(name)
    if sound is None:
        message = f"There is no format {name!r}; choose one of {', '.join(FORMATS)}."
        raise RequestError(message, "response_format")
    return sound


def _voice_body(voice: TextVoice) -> dict[str, Any]:
    name = voice.character.manifest.name
    shown = f"{name.en} ({voice.style_name})" if voice.style_name else name.en
    return {"id": voice.id, "object": "voice", "name": shown, "name_ja": name.ja}


async def _events(pieces: AsyncIterator[bytes], tokens: int) -> AsyncIterator[bytes]:
    """Send pieces as OpenAI's events; its clients expect tokens, which are characters here."""
    try:
        async for piece in pieces:
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
    except TextError as error:
        # OpenAI's clients raise an error at an event with this field.
        yield _event({"type": "error", "error": text_error_body(error)})
        return
    usage = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    yield _event({"type": "speech.audio.done", "usage": usage})


def _event(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()
