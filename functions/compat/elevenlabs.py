"""The routes of ElevenLabs: texts and recordings in a character's voice, and what is offered."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.long_recordings import convert_in_pieces
from functions.compat.service.encoders import (
    FORMATS_WITHOUT_FILE,
    RAW_RATES,
    Codec,
    SoundFormat,
    open_encoder,
)
from functions.compat.service.http_messages import (
    MARKED,
    SpokenAnswer,
    answer_busy,
    answer_with,
    common_handlers,
    in_seconds,
    read_body,
    unread_header,
)
from functions.compat.service.keys import Meter, key_owner_of
from functions.compat.service.synthesis import Speech
from functions.compat.service.texts import speech_of
from shared.runtime.push import OverloadedError
from shared.speech.decoding.process_output import DecoderUnavailableError, ResourceLimitError
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.text_interface import SpeechOptions, TextError
from shared.speech.results.audio_files import wav_file
from shared.speech.text.languages import LANGUAGES
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.datastructures import FormData
    from starlette.types import Message, Receive

    from functions.compat.service.http_messages import Handler
    from functions.compat.service.synthesis import Synthesis
    from functions.compat.service.texts import TextSpeakers
    from shared.container.admission import Admission
    from shared.conversion.characters import LoadedCharacter
    from shared.speech.decoding.decoder import Decoder
    from shared.speech.decoding.recording import Recording
    from shared.speech.results.statement import Marking


class FieldError(Exception):
    def __init__(self, field: str, message: str, place: str = "body") -> None:
        super().__init__(message)
        self.detail = {"loc": [place, field], "msg": message, "type": "value_error"}


class UnknownElevenLabsVoiceError(Exception):
    pass


def refuse_elevenlabs(status: HTTPStatus, message: str, *, code: str | None = None) -> JSONResponse:
    if status is HTTPStatus.UNAUTHORIZED:
        code = "invalid_api_key"
    code = code or status.phrase.lower().replace(" ", "_")
    return JSONResponse({"detail": {"status": code, "message": message}}, status)


RAW_FORMAT: Final = "pcm_s16le_16"
_RAW_RATE: Final = 16_000
_RAW_FRAME_BYTES: Final = 2
_MOST_FIELDS: Final = 16
_FIELD_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    max_seconds: float = 300.0
    max_bytes: int = 32 << 20
    at_once: int = 8
    seconds_to_come: float = 60.0


class Recordings:
    def __init__(self, decoder: Decoder, admission: Admission, limits: RecordingLimits) -> None:
        self._decoder = decoder
        self._admission = admission
        self._limits = limits
        self._held: Counter[str | None] = Counter()

    @asynccontextmanager
    async def read_form(self, request: Request) -> AsyncIterator[FormData]:
        """Read a form with a recording; its files are gone at the end of the context.

        Raises OverloadedError if all places are taken, or the client has half of them.
        """
        client, places = key_owner_of(request.scope), self._limits.at_once
        most_of_one = places if client is None else max(1, places // 2)
        if self._held.total() >= places or self._held[client] >= most_of_one:
            raise OverloadedError(
                f"all {places} places for recordings, or this client's, are taken"
            )
        with self._admission.admit(client):
            pass  # refuses at once what would be refused when the body has come
        self._held[client] += 1
        try:
            parser = MultiPartParser(
                request.headers,
                Request(request.scope, self._bounded(request)).stream(),
                max_files=1,
                max_fields=_MOST_FIELDS,
                max_part_size=_FIELD_BYTES,
            )
            try:
                try:
                    form = await parser.parse()
                except (MultiPartException, KeyError) as error:
                    # Without a boundary in the content type there is none to look for.
                    reason = getattr(error, "message", "no boundary")
                    detail = f"Send the recording as multipart/form-data: {reason}"
                    raise HTTPException(HTTPStatus.BAD_REQUEST, detail) from error
                # Only now: a recording that comes slowly keeps nobody from speaking.
                with self._admission.admit(client):
                    yield form
            finally:
                # Also those of a form that was cut off, which nothing else closes.
                for file in parser._files_to_close_on_error:  # noqa: SLF001 - see above
                    file.close()
        finally:
            self._held[client] -= 1
            self._held += Counter()  # forgets clients without any

    async def decode(self, form: FormData) -> Recording:
        file = form.get("audio")
        if not isinstance(file, UploadFile):
            raise FieldError("audio", "Send the recording as a file in the field 'audio'.")
        data = await file.read()
        file_format = form.get("file_format") or "other"
        if file_format == RAW_FORMAT:
            if len(data) % _RAW_FRAME_BYTES:
                raise FieldError("audio", f"Expected samples of 16 bits for '{RAW_FORMAT}'.")
            data = wav_file(data, _RAW_RATE, channels=1)
        elif file_format != "other":
            raise FieldError("file_format", f"Expected '{RAW_FORMAT}' or 'other'.")
        most = self._limits
        limits = DecodeLimits(
            min_seconds=0.1, max_seconds=most.max_seconds, max_bytes=most.max_bytes
        )
        return await self._decoder.decode(data, limits=limits)

    def _bounded(self, request: Request) -> Receive:
        """Build a `receive` that fails when the body is too large or too slow."""
        left = self._limits.max_bytes + _MOST_FIELDS * _FIELD_BYTES
        receive_in_time = in_seconds(request.receive, self._limits.seconds_to_come)

        async def receive() -> Message:
            nonlocal left
            message = await receive_in_time()
            left -= len(message.get("body", b""))
            if left < 0:
                most = self._limits.max_bytes
                detail = f"The recording is too large: send at most {most} bytes."
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
            return message

        return receive


_CHANGERS: Final = ("/v1/speech-to-speech/", "/v1/voice-changer/")
_SPEECH: Final = "/v1/text-to-speech/"
# Also those of missing routes that OpenAI has not, so that its clients understand the error.
PATHS: Final = (*_CHANGERS, "/v1/voices", "/v2/", _SPEECH, "/v1/user")

_MP3: Final = ((22_050, 32), (24_000, 48), *((44_100, rate) for rate in (32, 64, 96, 128, 192)))
_OPUS: Final = (32, 64, 96, 128, 192)
_USUAL: Final = "mp3_44100_128"
# The header of a damaged recording's answer: the time that could not be read; 0 if unknown.
MISSING_SECONDS: Final = "X-Missing-Seconds"
_MOST_SEED: Final = (1 << 32) - 1

FORMATS: Final[Mapping[str, SoundFormat]] = {
    **{f"mp3_{rate}_{kbit}": SoundFormat(Codec.MP3, rate, kbit * 1000) for rate, kbit in _MP3},
    **{f"opus_48000_{kbit}": SoundFormat(Codec.OPUS, 48_000, kbit * 1000) for kbit in _OPUS},
    **FORMATS_WITHOUT_FILE,
    **{f"wav_{rate}": SoundFormat(Codec.WAV, rate) for rate in RAW_RATES},
}

_LARGEST_BODY: Final = 256 << 10
_Share = Annotated[float | None, Field(ge=0, le=1)]


class SpokenVoiceSettings(BaseModel):
    """The wanted way of speaking; everything but the speed is checked and has no meaning here."""

    speed: Annotated[float | None, Field(ge=0.25, le=4.0)] = None
    stability: _Share = None
    similarity_boost: _Share = None
    style: _Share = None
    use_speaker_boost: bool | None = None


class TextToSpeechRequest(BaseModel):
    """The body of `POST /v1/text-to-speech/{voice_id}`; unknown fields are ignored."""

    text: Annotated[str, Field(min_length=1, max_length=10_000)]
    model_id: Annotated[str | None, Field(max_length=200)] = None
    language_code: Annotated[str | None, Field(max_length=40)] = None
    voice_settings: SpokenVoiceSettings | None = None
    seed: Annotated[int | None, Field(ge=0, le=_MOST_SEED)] = None

    def options(self) -> SpeechOptions:
        speed = self.voice_settings and self.voice_settings.speed
        return SpeechOptions(
            speed=speed or 1.0, seed=self.seed or 0, language=self.language_code or None
        )


def is_elevenlabs(request: Request) -> bool:
    """Return whether a client of ElevenLabs asks for a path that OpenAI has, too."""
    headers = request.headers
    return "xi-api-key" in headers or "elevenlabs" in headers.get("x-fern-sdk-name", "")


def elevenlabs_models(speakers: TextSpeakers) -> list[dict[str, Any]]:
    known = {code for speaker in speakers.all() for code in speaker.engine.languages}
    languages = [
        {"language_id": code, "name": name} for code, name in LANGUAGES.items() if code in known
    ]
    return [
        {
            "model_id": name,
            "name": f"Voice Avatar, {kind}",
            "description": f"Every character speaks {kind}, whatever model is asked for.",
            "can_be_finetuned": False,
            "can_do_text_to_speech": kind == "texts",
            "can_do_voice_conversion": kind == "recordings",
            "can_use_style": False,
            "can_use_speaker_boost": False,
            "serves_pro_voices": False,
            "token_cost_factor": 1.0,
            "requires_alpha_access": False,
            "maximum_text_length_per_request": 10_000,
            "languages": languages,
        }
        for name, kind in (
            ("eleven_multilingual_v2", "texts"),
            ("eleven_multilingual_sts_v2", "recordings"),
        )
    ]


@dataclass(frozen=True, slots=True)
class ElevenLabsRoutes:
    characters: Mapping[str, LoadedCharacter]
    speakers: TextSpeakers
    recordings: Recordings
    synthesis: Synthesis
    meter: Meter

    def routes(self) -> list[Route]:
        acts = dict.fromkeys(_CHANGERS, self.convert) | {_SPEECH: self.speak}
        return [
            *(
                Route(f"{path}{{voice_id}}{end}", act, methods=["POST"])
                for path, act in acts.items()
                for end in ("", "/stream")
            ),
            Route("/v1/voices", self.list_voices),
            Route("/v2/voices", self.list_voices),
            Route("/v1/voices/{voice_id}", self.show_voice),
        ]

    async def convert(self, request: Request) -> Response:
        sound, character = find_format(request), self._find(request)
        async with self.recordings.read_form(request) as form:
            options = options_in(form)
            recording = await self.recordings.decode(form)
        engine, headers = character.engine, dict(MARKED)
        if recording.damaged:
            headers[MISSING_SECONDS] = f"{recording.missing_seconds:.3f}"
        speech = Speech(
            partial(
                convert_in_pieces,
                engine,
                character.manifest,
                recording.samples,
                recording.sample_rate,
                options,
            ),
            engine.sample_rate,
            partial(
                open_encoder, spoken_format(request, sound), engine.sample_rate, character.marking
            ),
        )
        return await self._answer(
            request, speech, sound, character.marking, headers, seconds=recording.seconds
        )

    async def speak(self, request: Request) -> Response:
        name = request.path_params["voice_id"]
        speaker = self.speakers.find(name)
        if speaker is None:
            raise UnknownElevenLabsVoiceError(
                f"There is no voice {name!r} for texts; choose one of {self.speakers.ids}."
            )
        sound = find_format(request)
        asked = TextToSpeechRequest.model_validate_json(await read_body(request, _LARGEST_BODY))
        options, text = asked.options(), asked.text
        speech = speech_of(speaker, text, options, spoken_format(request, sound))
        headers = MARKED | unread_header(speaker.engine.divide(text, options))
        marking = speaker.character.text_marking
        return await self._answer(request, speech, sound, marking, headers, characters=len(text))

    async def _answer(
        self,
        request: Request,
        speech: Speech,
        sound: SoundFormat,
        marking: Marking | None,
        headers: Mapping[str, str],
        **used: Any,
    ) -> Response:
        owner = key_owner_of(request.scope)
        async with self.meter.count(owner, "elevenlabs", **used):
            if spoken_format(request, sound) is sound:
                stream = await self.synthesis.stream(speech, owner)
                return SpokenAnswer(self.synthesis, stream, sound.content_type, headers=headers)
            (pcm,) = await self.synthesis.speak([speech], request.is_disconnected, owner)
        wave = await asyncio.to_thread(wav_file, pcm, sound.sample_rate, 1, marking)
        return Response(wave, media_type=sound.content_type, headers=headers)

    def _find(self, request: Request) -> LoadedCharacter:
        name = request.path_params["voice_id"]
        known = {key: each for key, each in self.characters.items() if each.manifest.takes_speech}
        if name not in known:
            raise UnknownElevenLabsVoiceError(
                f"There is no voice {name!r}; choose one of {', '.join(known)}."
            )
        return known[name]

    async def list_voices(self, request: Request) -> Response:
        voices = [voice_body(character) for character in self.characters.values()]
        more = {"has_more": False, "total_count": len(voices)}
        return JSONResponse({"voices": voices, **(more if "/v2/" in request.url.path else {})})

    async def show_voice(self, request: Request) -> Response:
        character = self.characters.get(request.path_params["voice_id"])
        return JSONResponse(voice_body(character or self._find(request)))


def build(
    characters: Mapping[str, LoadedCharacter],
    speakers: TextSpeakers,
    recordings: Recordings,
    synthesis: Synthesis,
    meter: Meter | None = None,
) -> Starlette:
    refused, unprocessable = HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY
    offered = (
        "texts are spoken by POST /v1/text-to-speech/{voice_id}, and voices are changed by"
        " POST /v1/speech-to-speech/{voice_id}"
    )
    routes = ElevenLabsRoutes(characters, speakers, recordings, synthesis, meter or Meter())

    def answer(status: HTTPStatus, code: str, message: str | None = None) -> Handler:
        return answer_with(
            lambda error: refuse_elevenlabs(status, message or str(error), code=code)
        )

    async def refuse_text(request: Request, error: Any) -> Response:
        is_text = request.url.path.startswith(_SPEECH)
        code = error.code.value if is_text else ErrorCode.TOO_LONG.value
        return refuse_elevenlabs(refused, error.message, code=code)

    return Starlette(
        routes=routes.routes(),
        exception_handlers={
            **common_handlers(
                refuse_elevenlabs, busy="system_busy", quota="quota_exceeded", offered=offered
            ),
            FieldError: answer_with(
                lambda error: JSONResponse({"detail": [error.detail]}, unprocessable)
            ),
            UnknownElevenLabsVoiceError: answer(HTTPStatus.NOT_FOUND, "voice_not_found"),
            VoiceError: answer_with(
                lambda error: refuse_elevenlabs(refused, error.message, code=error.code.value)
            ),
            TextError: refuse_text,
            ValidationError: answer_with(refuse_fields),
            DecoderUnavailableError: answer_busy(refuse_elevenlabs, "system_busy"),
            ResourceLimitError: answer(
                refused,
                ErrorCode.TOO_COMPLEX.value,
                "The recording takes more time or memory to decode than it may.",
            ),
        },
    )


def refuse_fields(error: ValidationError) -> Response:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    detail = {"loc": ["body", *first["loc"]], "msg": first["msg"], "type": first["type"]}
    return JSONResponse({"detail": [detail]}, HTTPStatus.UNPROCESSABLE_ENTITY)


def find_format(request: Request) -> SoundFormat:
    name = request.query_params.get("output_format") or _USUAL
    sound = FORMATS.get(name)
    if sound is None:
        raise FieldError("output_format", f"Expected one of {', '.join(FORMATS)}.", "query")
    return sound


def spoken_format(request: Request, sound: SoundFormat) -> SoundFormat:
    """Return the format in which speech is made: a WAV file that states its length comes last."""
    if sound.codec is Codec.WAV and not request.url.path.endswith("/stream"):
        return SoundFormat(Codec.PCM, sound.sample_rate)
    return sound


def options_in(form: FormData) -> ConversionOptions:
    """Read the options of a conversion; those without a meaning here are checked and ignored."""
    seed = str(form.get("seed") or "0")
    # The length first: Python makes no number of more than some thousand digits.
    if not seed.isdecimal() or len(seed) > len(str(_MOST_SEED)) or int(seed) > _MOST_SEED:
        raise FieldError("seed", f"Expected a whole number from 0 to {_MOST_SEED}.")
    noise = str(form.get("remove_background_noise") or "false").lower()
    if noise not in {"true", "false"}:
        raise FieldError("remove_background_noise", "Expected true or false.")
    settings = form.get("voice_settings")
    if settings is not None:
        try:
            json.loads(str(settings))
        except (ValueError, RecursionError) as error:
            raise FieldError("voice_settings", "Expected JSON.") from error
    return ConversionOptions(seed=int(seed))


def voice_body(character: LoadedCharacter) -> dict[str, Any]:
    manifest, engine = character.manifest, character.text_engine
    return {
        "voice_id": manifest.id,
        "name": manifest.name.en,
        "category": "premade",
        "description": manifest.credit,
        "labels": {
            "name_ja": manifest.name.ja,
            "licence": manifest.licence.name,
            "languages": ", ".join(engine.languages if engine else ()),
            "speaks_texts": str(engine is not None).lower(),
            "converts_recordings": str(manifest.takes_speech).lower(),
        },
        "preview_url": None,
        "available_for_tiers": [],
        "high_quality_base_model_ids": [],
    }
