"""The routes that clients of VOICEVOX and AivisSpeech call.

Bodies, status codes and content types are those of the engines' OpenAPI documents; what is left out
answers 501.
"""

from __future__ import annotations

import asyncio
import io
import zipfile
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from functions.convert.live.voicevox.memory import FullError
from functions.convert.live.voicevox.waves import WavesError, connect_waves
from speech.audio.wav import begin_wav, to_pcm16, write_wav
from speech.engines.speaking import TextError
from speech.text.dictionary import WordError, WordType, make_word
from speech.voicevox import queries, words
from speech.voicevox.kana import KanaError, parse_kana
from speech.voicevox.models import AccentPhrases, AudioQuery, Preset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from functions.convert.live.voicevox.memory import Presets, UserDictionary
    from functions.convert.live.voicevox.voices import OfferedStyle, Voices
    from speech.text.accents import AccentPhrase

_PHRASES = TypeAdapter(AccentPhrases)
_QUERIES = TypeAdapter(list[AudioQuery])
_WAVES = TypeAdapter(list[str])
_WORDS = TypeAdapter(dict[str, words.UserDictWord])
_LEFT_OUT = (
    "/cancellable_synthesis",
    "/frame_synthesis",
    "/sing_frame_audio_query",
    "/sing_frame_volume",
    "/singer_info",
    "/singers",
    "/synthesis_morphing",
)
_MOST_QUERIES = 32
_LARGEST_BODY = 8 << 20
_CLIENT_CLOSED_REQUEST = 499  # nginx's; nobody is there to read it


@dataclass(frozen=True)
class Settings:
    """What the service needs to know.

    Attributes:
        version: of the service, as `GET /version` says it.
        concurrency: how many texts are spoken at once.
        backlog: how many more may wait; others are sent away with 503.
        retry_after_seconds: when those may come again.
    """

    version: str
    concurrency: int = 2
    backlog: int = 8
    retry_after_seconds: int = 1


@dataclass(frozen=True)
class Services:
    """What the service speaks with."""

    voices: Voices
    presets: Presets
    dictionary: UserDictionary


def build(settings: Settings, services: Services) -> Starlette:
    """Build the application."""
    speaking = _Speaking(settings, services)
    keeping = _Keeping(services)
    info = _Info(settings, services.voices)
    routes = [*info.routes(), *speaking.routes(), *keeping.routes()]
    routes += [Route(path, _left_out, methods=["GET", "POST"]) for path in _LEFT_OUT]
    return Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _refuse,
            ValidationError: _invalid,
            KanaError: _unreadable_kana,
            TextError: _unspeakable,
            WordError: _unusable,
            FullError: _unusable,
            WavesError: _unusable,
        },
    )


class _Info:
    """What the service is and which voices it has."""

    def __init__(self, settings: Settings, voices: Voices) -> None:
        self._settings = settings
        self._voices = voices

    def routes(self) -> list[Route]:
        return [
            Route("/version", self._version),
            Route("/core_versions", self._core_versions),
            Route("/supported_devices", self._devices),
            Route("/engine_manifest", self._manifest),
            Route("/speakers", self._speakers),
            Route("/speaker_info", self._speaker_info),
            Route("/initialize_speaker", self._initialize, methods=["POST"]),
            Route("/is_initialized_speaker", self._is_initialized),
        ]

    async def _version(self, _: Request) -> Response:
        return JSONResponse(self._settings.version)

    async def _core_versions(self, _: Request) -> Response:
        return JSONResponse([self._settings.version])

    async def _devices(self, _: Request) -> Response:
        return JSONResponse({"cpu": True, "cuda": False, "dml": False})

    async def _manifest(self, _: Request) -> Response:
        features = {
            "adjust_mora_pitch": False,
            "adjust_phoneme_length": False,
            "adjust_speed_scale": True,
            "adjust_pitch_scale": True,
            "adjust_intonation_scale": True,
            "adjust_volume_scale": True,
            "adjust_pause_length": True,
            "interrogative_upspeak": True,
            "synthesis_morphing": False,
            "sing": False,
            "manage_library": False,
            "return_resource_url": False,
        }
        return JSONResponse(
            {
                "manifest_version": "0.13.1",
                "name": "Voice Avatar",
                "brand_name": "Voice Avatar",
                "uuid": "5f0cde8c-7f1c-4d0e-9c0b-6d0d5d4b2b7e",
                "url": "",
                "icon": "",
                "default_sampling_rate": queries.SAMPLE_RATE,
                "frame_rate": 100.0,
                "terms_of_service": "",
                "update_infos": [],
                "dependency_licenses": [],
                "supported_features": features,
            }
        )

    async def _speakers(self, _: Request) -> Response:
        return JSONResponse([speaker.summary() for speaker in self._voices.speakers])

    async def _speaker_info(self, request: Request) -> Response:
        speaker = self._voices.find_speaker(_text(request, "speaker_uuid"))
        if speaker is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "該当する話者が見つかりません")
        return JSONResponse(speaker.details())

    async def _initialize(self, request: Request) -> Response:
        _style(self._voices, request)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _is_initialized(self, request: Request) -> Response:
        _style(self._voices, request)
        return JSONResponse(content=True)


class _Speaking:
    """From text to query, and from query to speech; bounded."""

    def __init__(self, settings: Settings, services: Services) -> None:
        self._settings = settings
        self._voices = services.voices
        self._presets = services.presets
        self._dictionary = services.dictionary
        self._running = asyncio.Semaphore(settings.concurrency)
        self._present = 0

    def routes(self) -> list[Route]:
        posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/audio_query": self._audio_query,
            "/audio_query_from_preset": self._audio_query_from_preset,
            "/accent_phrases": self._accent_phrases,
            "/mora_data": self._unchanged,
            "/mora_length": self._unchanged,
            "/mora_pitch": self._unchanged,
            "/validate_kana": self._validate_kana,
            "/synthesis": self._synthesis,
            "/multi_synthesis": self._multi_synthesis,
            "/connect_waves": self._connect_waves,
        }
        return [Route(path, handler, methods=["POST"]) for path, handler in posts.items()]

    async def _audio_query(self, request: Request) -> Response:
        style = _style(self._voices, request)
        return _model(await self._query(_text(request, "text"), style))

    async def _audio_query_from_preset(self, request: Request) -> Response:
        preset = self._presets.find(_number(request, "preset_id"))
        if preset is None:
            raise HTTPException(
                HTTPStatus.UNPROCESSABLE_ENTITY, "該当するプリセットIDが見つかりません"
            )
        style = _known_style(self._voices, preset.style_id)
        query = await self._query(_text(request, "text"), style)
        return _model(queries.apply_preset(query, preset))

    async def _accent_phrases(self, request: Request) -> Response:
        style = _style(self._voices, request)
        text = _text(request, "text")
        if _flag(request, "is_kana", default=False):
            phrases: Sequence[AccentPhrase] = parse_kana(text)
        else:
            phrases = await self._read(text, style)
        bodies = [queries.body_of(phrase) for phrase in phrases]
        return JSONResponse(_PHRASES.dump_python(bodies, mode="json", by_alias=True))

    async def _unchanged(self, request: Request) -> Response:
        """Answer what was sent: lengths and pitch are the voices' own."""
        _style(self._voices, request)
        phrases = _PHRASES.validate_json(await _body(request))
        return JSONResponse(_PHRASES.dump_python(phrases, mode="json", by_alias=True))

    async def _validate_kana(self, request: Request) -> Response:
        parse_kana(_text(request, "text"))
        return JSONResponse(content=True)

    async def _synthesis(self, request: Request) -> Response:
        style = _style(self._voices, request)
        query = AudioQuery.model_validate_json(await _body(request))
        questions = _flag(request, "enable_interrogative_upspeak", default=True)
        if _flag(request, "stream", default=False):
            return await self._stream(query, style, raise_questions=questions)
        (spoken,) = await self._speak(request, [query], style, raise_questions=questions)
        return Response(spoken, media_type="audio/wav")

    async def _stream(
        self, query: AudioQuery, style: OfferedStyle, *, raise_questions: bool
    ) -> Response:
        """Answer each sentence as soon as it is spoken, in a WAV file of unknown length."""
        place = self._take_place()
        try:
            await self._running.acquire()
            try:
                pieces = await _begin(query, style, raise_questions=raise_questions)
                first = await asyncio.to_thread(next, pieces, None)
            except BaseException:
                self._running.release()
                raise
        except BaseException:
            place()
            raise

        async def sound() -> AsyncIterator[bytes]:
            channels = 2 if query.output_stereo else 1
            yield begin_wav(query.output_sampling_rate, channels, style.marking)
            piece = first
            while piece is not None:
                yield to_pcm16(piece).tobytes()
                piece = await asyncio.to_thread(next, pieces, None)

        def end() -> None:
            self._running.release()
            place()

        return _Sound(sound(), end)

    async def _connect_waves(self, request: Request) -> Response:
        waves = _WAVES.validate_json(await _body(request))
        return Response(await asyncio.to_thread(connect_waves, waves), media_type="audio/wav")

    async def _multi_synthesis(self, request: Request) -> Response:
        style = _style(self._voices, request)
        asked = _QUERIES.validate_json(await _body(request))
        if not 1 <= len(asked) <= _MOST_QUERIES:
            raise HTTPException(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"音声合成クエリは1から{_MOST_QUERIES}個までです",
            )
        if len({query.output_sampling_rate for query in asked}) > 1:
            raise HTTPException(
                HTTPStatus.UNPROCESSABLE_ENTITY, "サンプリングレートを揃えてください"
            )
        questions = _flag(request, "enable_interrogative_upspeak", default=True)
        waves = await self._speak(request, asked, style, raise_questions=questions)
        return Response(_zip(waves), media_type="application/zip")

    async def _query(self, text: str, style: OfferedStyle) -> AudioQuery:
        return queries.query_of(await self._read(text, style), text)

    async def _read(self, text: str, style: OfferedStyle) -> Sequence[AccentPhrase]:
        def read() -> Sequence[AccentPhrase]:
            self._dictionary.refresh()
            return style.engine.read_phrases(text)

        return await asyncio.to_thread(read)

    async def _speak(
        self,
        request: Request,
        asked: Sequence[AudioQuery],
        style: OfferedStyle,
        *,
        raise_questions: bool,
    ) -> list[bytes]:
        """Speak queries when it is their turn, for as long as somebody listens."""
        leave = self._take_place()
        try:
            async with self._running:
                return [
                    await _say(request, query, style, raise_questions=raise_questions)
                    for query in asked
                ]
        finally:
            leave()

    def _take_place(self) -> Callable[[], None]:
        """Count a request, and return what counts it no more.

        Raises:
            HTTPException: as many as may be here are here.
        """
        if self._present >= self._settings.concurrency + self._settings.backlog:
            raise HTTPException(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "The service is busy; try again later.",
                {"Retry-After": str(self._settings.retry_after_seconds)},
            )
        self._present += 1

        def leave() -> None:
            self._present -= 1

        return leave


async def _say(
    request: Request, query: AudioQuery, style: OfferedStyle, *, raise_questions: bool
) -> bytes:
    """Speak one query, piece by piece, so that a client that left stops it."""
    speak = await _begin(query, style, raise_questions=raise_questions)
    pieces: list[NDArray[np.float32]] = []
    while not await request.is_disconnected():
        piece = await asyncio.to_thread(next, speak, None)
        if piece is None:
            rate = query.output_sampling_rate
            return write_wav(np.concatenate(pieces), rate, style.marking)
        pieces.append(piece)
    raise HTTPException(_CLIENT_CLOSED_REQUEST, "The client closed the connection.")


class _Sound(StreamingResponse):
    """A WAV file that is sent while it is made; `end` is called however that ends."""

    def __init__(self, content: AsyncIterator[bytes], end: Callable[[], None]) -> None:
        super().__init__(content, media_type="audio/wav")
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


async def _begin(
    query: AudioQuery, style: OfferedStyle, *, raise_questions: bool
) -> Iterator[NDArray[np.float32]]:
    """Begin to speak a query; each piece is computed when it is asked for."""
    return await asyncio.to_thread(
        queries.speak, style.engine, query, style.engine_style, raise_questions=raise_questions
    )


def _zip(waves: Sequence[bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, spoken in enumerate(waves, start=1):
            archive.writestr(f"{number:03}.wav", spoken)
    return file.getvalue()


class _Keeping:
    """Presets, and the words of the user dictionary."""

    def __init__(self, services: Services) -> None:
        self._presets = services.presets
        self._dictionary = services.dictionary

    def routes(self) -> list[Route]:
        word = "/user_dict_word/{number}"
        return [
            Route("/presets", self._list_presets),
            Route("/add_preset", self._add_preset, methods=["POST"]),
            Route("/update_preset", self._update_preset, methods=["POST"]),
            Route("/delete_preset", self._delete_preset, methods=["POST"]),
            Route("/user_dict", self._list_words),
            Route("/user_dict_word", self._add_word, methods=["POST"]),
            Route(word, self._update_word, methods=["PUT"]),
            Route(word, self._delete_word, methods=["DELETE"]),
            Route("/import_user_dict", self._import_words, methods=["POST"]),
        ]

    async def _list_presets(self, _: Request) -> Response:
        presets = self._presets.all()
        return JSONResponse([preset.model_dump(by_alias=True) for preset in presets])

    async def _add_preset(self, request: Request) -> Response:
        preset = Preset.model_validate_json(await _body(request))
        return JSONResponse(self._presets.add(preset))

    async def _update_preset(self, request: Request) -> Response:
        preset = Preset.model_validate_json(await _body(request))
        if not self._presets.update(preset):
            raise _no_preset()
        return JSONResponse(preset.id)

    async def _delete_preset(self, request: Request) -> Response:
        if not self._presets.delete(_number(request, "id")):
            raise _no_preset()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _list_words(self, _: Request) -> Response:
        await asyncio.to_thread(self._dictionary.refresh)
        known = self._dictionary.words()
        return JSONResponse(
            {number: words.body_of(word).model_dump() for number, word in known.items()}
        )

    async def _add_word(self, request: Request) -> Response:
        word = _word(request)
        return JSONResponse(await asyncio.to_thread(self._dictionary.add, word))

    async def _update_word(self, request: Request) -> Response:
        number = request.path_params["number"]
        if not await asyncio.to_thread(self._dictionary.update, number, _word(request)):
            raise _no_word()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _delete_word(self, request: Request) -> Response:
        if not await asyncio.to_thread(self._dictionary.delete, request.path_params["number"]):
            raise _no_word()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _import_words(self, request: Request) -> Response:
        override = _flag(request, "override", default=False)
        bodies = _WORDS.validate_json(await _body(request))
        known = {number: words.word_of(body) for number, body in bodies.items()}
        await asyncio.to_thread(self._dictionary.merge, known, override=override)
        return Response(status_code=HTTPStatus.NO_CONTENT)


def _no_preset() -> HTTPException:
    return HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "該当するプリセットIDが見つかりません")


def _no_word() -> HTTPException:
    return HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "該当する単語が見つかりません")


def _word(request: Request) -> Any:
    kind = request.query_params.get("word_type", WordType.PROPER_NOUN)
    if kind not in set(WordType):
        raise WordError(f"word_type: expected one of {', '.join(WordType)}, found {kind[:40]!r}.")
    return make_word(
        _text(request, "surface"),
        _text(request, "pronunciation"),
        _number(request, "accent_type"),
        WordType(kind),
        _number(request, "priority", default=5),
    )


def _style(voices: Voices, request: Request) -> OfferedStyle:
    return _known_style(voices, _number(request, "speaker"))


def _known_style(voices: Voices, number: int) -> OfferedStyle:
    style = voices.find_style(number)
    if style is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"スタイル {number} は存在しません。")
    return style


class _Parameter(BaseModel):
    """Used for its errors, which clients of FastAPI know."""

    query: int


def _text(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if value is None:
        raise _Unusable(name, "missing", "Field required", None)
    return value


def _number(request: Request, name: str, default: int | None = None) -> int:
    value = request.query_params.get(name)
    if value is None and default is not None:
        return default
    text = _text(request, name)
    try:
        return _Parameter.model_validate({"query": text}).query
    except ValidationError as error:
        first = error.errors()[0]
        raise _Unusable(name, first["type"], first["msg"], text) from error


def _flag(request: Request, name: str, *, default: bool) -> bool:
    value = request.query_params.get(name)
    if value is None:
        return default
    if value.lower() not in {"true", "false", "1", "0"}:
        raise _Unusable(name, "bool_parsing", "Input should be a valid boolean", value)
    return value.lower() in {"true", "1"}


class _Unusable(HTTPException):
    """A parameter of the address that cannot be used, described as FastAPI does."""

    def __init__(self, name: str, kind: str, message: str, value: str | None) -> None:
        detail = {"type": kind, "loc": ["query", name], "msg": message, "input": value}
        super().__init__(HTTPStatus.UNPROCESSABLE_ENTITY, "unusable")
        self.details = [detail]


async def _body(request: Request) -> bytes:
    """Read a body of at most 8 MiB."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _LARGEST_BODY:
            raise HTTPException(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {_LARGEST_BODY} bytes"
            )
    return bytes(content)


def _model(model: BaseModel) -> Response:
    return JSONResponse(model.model_dump(by_alias=True))


async def _left_out(_: Request) -> Response:
    raise HTTPException(HTTPStatus.NOT_IMPLEMENTED, "This service does not offer this.")


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    detail = error.details if isinstance(error, _Unusable) else error.detail
    return JSONResponse({"detail": detail}, error.status_code, error.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, ValidationError)  # noqa: S101 - for the type checker
    details = [
        {"type": each["type"], "loc": ["body", *each["loc"]], "msg": each["msg"]}
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return JSONResponse({"detail": details}, HTTPStatus.UNPROCESSABLE_ENTITY)


async def _unreadable_kana(_: Request, error: Exception) -> Response:
    assert isinstance(error, KanaError)  # noqa: S101 - for the type checker
    detail = {"text": str(error), "error_name": error.code, "error_args": error.arguments}
    return JSONResponse({"detail": detail}, HTTPStatus.BAD_REQUEST)


async def _unspeakable(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, HTTPStatus.UNPROCESSABLE_ENTITY)


async def _unusable(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, HTTPStatus.UNPROCESSABLE_ENTITY)
