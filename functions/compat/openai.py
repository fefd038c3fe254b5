"""The routes of OpenAI: speech, and the lists of voices and models."""

from __future__ import annotations

import base64
import json
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.elevenlabs import elevenlabs_models, is_elevenlabs
from functions.compat.service.encoders import FORMATS_WITHOUT_FILE, Codec, SoundFormat
from functions.compat.service.http_messages import (
    MARKED,
    SpokenAnswer,
    answer_with,
    common_handlers,
    read_body,
    unread_header,
)
from functions.compat.service.keys import Meter, key_owner_of
from functions.compat.service.texts import speech_of
from shared.speech.engines.text_interface import SpeechOptions, TextError, TextErrorCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

    from functions.compat.service.synthesis import Synthesis
    from functions.compat.service.texts import TextSpeakers


LONGEST_INPUT: Final = 4_096

FORMATS: Final[Mapping[str, SoundFormat]] = {
    "mp3": SoundFormat(Codec.MP3, 24_000, 128_000),
    "opus": SoundFormat(Codec.OPUS, 48_000, 64_000),
    "aac": SoundFormat(Codec.AAC, 24_000, 96_000),
    "flac": SoundFormat(Codec.FLAC, 24_000),
    "wav": SoundFormat(Codec.WAV, 24_000),
    "pcm": SoundFormat(Codec.PCM, 24_000),
    # OpenAI does not have these raw and telephone formats.
    **FORMATS_WITHOUT_FILE,
}

# The names of OpenAI's models that clients offer; every other name works, and means the same.
MODELS: Final = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")

# OpenAI's own voices: many clients can ask for no other.
VOICES: Final = frozenset(
    {
        *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx"),
        *("sage", "shimmer", "verse"),
    }
)


class CustomVoice(BaseModel):
    """A voice by its id, as newer clients send it."""

    id: str


class SpeechRequest(BaseModel):
    """The body of `POST /v1/audio/speech`; unknown fields and null are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: Annotated[str, Field(min_length=1, max_length=200)]
    input: Annotated[str, Field(min_length=1, max_length=LONGEST_INPUT)]
    voice: str | CustomVoice
    instructions: Annotated[str | None, Field(max_length=LONGEST_INPUT)] = None
    """Ignored: no character follows instructions."""
    response_format: str = "mp3"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    stream_format: Literal["audio", "sse"] = "audio"

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, fields: Any) -> Any:
        # Clients in typed languages send null for each option that nobody has set.
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class OpenAiRequestError(Exception):
    def __init__(
        self,
        message: str,
        param: str,
        code: str | None = None,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


def refuse_openai(
    status: HTTPStatus, message: str, *, code: str | None = None, param: str | None = None
) -> JSONResponse:
    if status is HTTPStatus.UNAUTHORIZED:
        code = "invalid_api_key"
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    return JSONResponse(
        {"error": {"message": message, "type": kind, "param": param, "code": code}}, status
    )


def error_of_fields(error: ValidationError) -> Response:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = ".".join(map(str, first["loc"][:1])) or None
    message = f"{param or 'The body'}: {first['msg']}."
    return refuse_openai(HTTPStatus.BAD_REQUEST, message, param=param)


def error_of_text(error: TextError) -> dict[str, Any]:
    param = "voice" if error.code is TextErrorCode.UNKNOWN_STYLE else "input"
    body = {"message": error.message, "type": "invalid_request_error", "param": param}
    return {"error": body | {"code": error.code.value}}


# All of OpenAI's API, so that its clients understand which routes are missing.
PATHS: Final = ("/v1/",)
_LARGEST_BODY: Final = 64 << 10


class OpenAiRoutes:
    def __init__(self, voices: TextSpeakers, synthesis: Synthesis, meter: Meter) -> None:
        self._voices = voices
        self._synthesis = synthesis
        self._meter = meter

    def routes(self) -> list[Route]:
        return [
            Route("/v1/audio/speech", self.create_speech, methods=["POST"]),
            Route("/v1/audio/voices", self.list_voices),
            Route("/v1/audio/models", self.list_models),
            Route("/v1/models", self.list_models),
            Route("/v1/models/{model}", self.show_model),
        ]

    async def create_speech(self, request: Request) -> Response:
        asked = SpeechRequest.model_validate_json(await read_body(request, _LARGEST_BODY))
        name = asked.voice if isinstance(asked.voice, str) else asked.voice.id
        voice = self._voices.find(name) or (self._voices.default if name in VOICES else None)
        if voice is None:
            message = f"There is no voice {name!r}; choose one of {self._voices.ids}."
            raise OpenAiRequestError(message, "voice")
        sound = FORMATS.get(asked.response_format)
        if sound is None:
            known = ", ".join(FORMATS)
            message = f"There is no format {asked.response_format!r}; choose one of {known}."
            raise OpenAiRequestError(message, "response_format")
        options = SpeechOptions(speed=asked.speed)
        owner = key_owner_of(request.scope)
        async with self._meter.count(owner, "openai", characters=len(asked.input)):
            speech = speech_of(voice, asked.input, options, sound)
            stream = await self._synthesis.stream(speech, owner)
        headers = MARKED | unread_header(voice.engine.divide(asked.input, options))
        if asked.stream_format == "audio":
            return SpokenAnswer(self._synthesis, stream, sound.content_type, headers=headers)
        events = partial(speech_events, tokens=len(asked.input))
        return SpokenAnswer(self._synthesis, stream, "text/event-stream", events, headers)

    async def list_voices(self, _: Request) -> Response:
        voices = []
        for voice in self._voices.all():
            name = voice.character.manifest.name
            shown = f"{name.en} ({voice.style_name})" if voice.style_name else name.en
            described = {"id": voice.id, "object": "voice", "name": shown, "name_ja": name.ja}
            voices.append(described | {"languages": list(voice.engine.languages)})
        return JSONResponse({"object": "list", "voices": voices, "data": voices})

    async def list_models(self, request: Request) -> Response:
        if is_elevenlabs(request):
            return JSONResponse(elevenlabs_models(self._voices))
        return JSONResponse({"object": "list", "data": [model_body(name) for name in MODELS]})

    async def show_model(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name not in MODELS:
            message = f"There is no model {name!r}; choose one of {', '.join(MODELS)}."
            raise OpenAiRequestError(message, "model", "model_not_found", HTTPStatus.NOT_FOUND)
        return JSONResponse(model_body(name))


def build(voices: TextSpeakers, synthesis: Synthesis, meter: Meter | None = None) -> Starlette:
    offered = "speech comes from POST /v1/audio/speech"
    return Starlette(
        routes=OpenAiRoutes(voices, synthesis, meter or Meter()).routes(),
        exception_handlers={
            **common_handlers(
                refuse_openai, busy="busy", quota="insufficient_quota", offered=offered
            ),
            OpenAiRequestError: answer_with(
                lambda error: refuse_openai(
                    error.status, str(error), code=error.code, param=error.param
                )
            ),
            ValidationError: answer_with(error_of_fields),
            TextError: answer_with(
                lambda error: JSONResponse(error_of_text(error), HTTPStatus.BAD_REQUEST)
            ),
        },
    )


def model_body(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "voice-avatar"}


async def speech_events(pieces: AsyncIterator[bytes], tokens: int) -> AsyncIterator[bytes]:
    """Send pieces as OpenAI's events; its clients expect tokens, which are characters here."""

    def event(kind: str, **body: Any) -> bytes:
        return f"data: {json.dumps({'type': kind, **body})}\n\n".encode()

    try:
        async for piece in pieces:
            yield event("speech.audio.delta", audio=base64.b64encode(piece).decode())
    except TextError as error:
        # OpenAI's clients raise an error at an event with the field `error`.
        yield event("error", **error_of_text(error))
        return
    usage = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    yield event("speech.audio.done", usage=usage)
