"""The bodies that clients of OpenAI send and get."""

from __future__ import annotations

import base64
import json
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.service.encoders import FORMATS_WITHOUT_FILE, Codec, SoundFormat
from functions.compat.service.http_messages import SpokenAnswer, read_body
from functions.compat.service.keys import LimitReachedError, Meter, key_owner_of, takes_turns_as
from functions.compat.service.texts import speech_of
from shared.runtime.push import OverloadedError
from shared.speech.engines.text_interface import SpeechOptions, TextError, TextErrorCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from starlette.requests import Request

    from functions.compat.service.synthesis import Synthesis
    from functions.compat.service.voices import TextSpeaker, TextSpeakers


LONGEST_INPUT: Final = 4_096

FORMATS: Final[Mapping[str, SoundFormat]] = {
    "mp3": SoundFormat(Codec.MP3, 24_000, 128_000),
    "opus": SoundFormat(Codec.OPUS, 48_000, 64_000),
    "aac": SoundFormat(Codec.AAC, 24_000, 96_000),
    "flac": SoundFormat(Codec.FLAC, 24_000),
    "wav": SoundFormat(Codec.WAV, 24_000),
    "pcm": SoundFormat(Codec.PCM, 24_000),
    # Further ones, which OpenAI does not have: raw and telephone formats.
    **FORMATS_WITHOUT_FILE,
}

MODELS: Final = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
"""The names of OpenAI's models that clients offer; every name is taken, and means the same."""

VOICES: Final = frozenset(
    {
        *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx"),
        *("sage", "shimmer", "verse"),
    }
)
"""OpenAI's own voices: many clients can ask for no other."""


class CustomVoice(BaseModel):
    """A voice by its id, as OpenAI's newer clients send it."""

    id: str


class SpeechRequest(BaseModel):
    """The body of `POST /v1/audio/speech`; unknown fields and null are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: Annotated[str, Field(min_length=1, max_length=200)]
    input: Annotated[str, Field(min_length=1, max_length=LONGEST_INPUT)]
    voice: str | CustomVoice
    instructions: Annotated[str | None, Field(max_length=LONGEST_INPUT)] = None
    """Taken and ignored: no voice here follows instructions."""
    response_format: str = "mp3"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    stream_format: Literal["audio", "sse"] = "audio"

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, fields: Any) -> Any:
        """Clients in typed languages send null for each option that nobody has set."""
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def voice_name(self) -> str:
        """The name of the voice."""
        return self.voice if isinstance(self.voice, str) else self.voice.id


def model_body(name: str) -> dict[str, Any]:
    """Describe a model."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "voice-avatar"}


if TYPE_CHECKING:
    Handler = Callable[[Request, Exception], Awaitable[Response]]


SPEECH: Final = "POST /v1/audio/speech"


class OpenAiRequestError(Exception):
    """A request that cannot be served.

    Args:
        param: the field that is wrong; None if it is no field.
        code: for programs; None if there is none.
    """

    def __init__(
        self,
        message: str,
        param: str | None = None,
        code: str | None = None,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


def refuse_openai(
    status: HTTPStatus, message: str, param: str | None = None, code: str | None = None
) -> JSONResponse:
    """Answer a refusal."""
    if status is HTTPStatus.UNAUTHORIZED:
        code = "invalid_api_key"
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    return JSONResponse({"error": _body(kind, message, param, code)}, status)


def exception_handlers(retry_after_seconds: int) -> dict[type[Exception], Handler]:
    """Build the handlers of errors.

    Args:
        retry_after_seconds: when a client may come again that was sent away with 503.
    """

    async def busy(_: Request, __: Exception) -> Response:
        answer = refuse_openai(
            HTTPStatus.SERVICE_UNAVAILABLE, "The service is busy; try again later.", code="busy"
        )
        answer.headers["Retry-After"] = str(retry_after_seconds)
        return answer

    return {
        HTTPException: _refuse_http,
        OpenAiRequestError: _refuse_request,
        ValidationError: _refuse_fields,
        TextError: _refuse_text,
        LimitReachedError: _refuse_more,
        OverloadedError: busy,
    }


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    status, message = HTTPStatus(error.status_code), error.detail
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        path = request.url.path
        message = f"There is no {request.method} {path} here; speech comes from {SPEECH}."
    answer = refuse_openai(status, message)
    answer.headers.update(error.headers or {})
    return answer


async def _refuse_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, OpenAiRequestError)  # noqa: S101 - for the type checker
    return refuse_openai(error.status, error.message, error.param, error.code)


async def _refuse_fields(_: Request, error: Exception) -> Response:
    assert isinstance(error, ValidationError)  # noqa: S101 - for the type checker
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = ".".join(map(str, first["loc"][:1])) or None
    return refuse_openai(HTTPStatus.BAD_REQUEST, f"{param or 'The body'}: {first['msg']}.", param)


async def _refuse_more(_: Request, error: Exception) -> Response:
    return refuse_openai(HTTPStatus.TOO_MANY_REQUESTS, str(error), code="insufficient_quota")


async def _refuse_text(_: Request, error: Exception) -> Response:
    assert isinstance(error, TextError)  # noqa: S101 - for the type checker
    return refuse_openai(HTTPStatus.BAD_REQUEST, error.message, _param_of(error), error.code.value)


def text_error_body(error: TextError) -> dict[str, Any]:
    """Describe an error that ends a stream after its first event."""
    return _body("invalid_request_error", error.message, _param_of(error), error.code.value)


def _param_of(error: TextError) -> str:
    return "voice" if error.code is TextErrorCode.UNKNOWN_STYLE else "input"


def _body(kind: str, message: str, param: str | None, code: str | None) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": param, "code": code}


PATHS: Final = ("/v1/",)
"""All of OpenAI's API, so that its clients understand what is missing here."""

LARGEST_BODY: Final = 64 << 10


class OpenAiRoutes:
    """Speech, and the lists of what can be asked for."""

    def __init__(self, voices: TextSpeakers, synthesis: Synthesis, meter: Meter) -> None:
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
        owner = key_owner_of(request.scope)
        async with self._meter.counting(owner, "openai", characters=len(asked.input)):
            speech = speech_of(voice, asked.input, options, sound)
            stream = await self._synthesis.stream(speech, takes_turns_as(request.scope))
        if asked.stream_format == "audio":
            return SpokenAnswer(self._synthesis, stream, sound.content_type)
        events = partial(_events, tokens=len(asked.input))
        return SpokenAnswer(self._synthesis, stream, "text/event-stream", events)

    def _find_voice(self, name: str) -> TextSpeaker:
        voice = self._voices.find(name)
        if voice is not None:
            return voice
        if name in VOICES:
            return self._voices.default
        known = ", ".join(each.id for each in self._voices.all())
        raise OpenAiRequestError(f"There is no voice {name!r}; choose one of {known}.", "voice")

    async def _list_voices(self, _: Request) -> Response:
        voices = [_voice_body(voice) for voice in self._voices.all()]
        return JSONResponse({"object": "list", "voices": voices, "data": voices})

    async def _list_models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [model_body(name) for name in MODELS]})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name not in MODELS:
            message = f"There is no model {name!r}; choose one of {', '.join(MODELS)}."
            raise OpenAiRequestError(message, "model", "model_not_found", HTTPStatus.NOT_FOUND)
        return JSONResponse(model_body(name))


def build(
    voices: TextSpeakers,
    synthesis: Synthesis,
    meter: Meter | None = None,
    retry_after_seconds: int = 1,
) -> Starlette:
    """Build the application.

    Args:
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
        raise OpenAiRequestError(message, "response_format")
    return sound


def _voice_body(voice: TextSpeaker) -> dict[str, Any]:
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
