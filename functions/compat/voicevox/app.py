"""The routes that clients of VOICEVOX and AivisSpeech call.

Bodies, status codes and content types are those of the engines' OpenAPI documents; routes that are
left out answer 501.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final, TypeVar
from uuid import UUID

from pydantic import FailFast, Field, TypeAdapter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.service.keys import Meter, key_owner_of
from functions.compat.voicevox import queries
from functions.compat.voicevox.queries import Preset
from functions.compat.voicevox.requests import (
    exception_handlers,
    read_body,
    read_flag,
    read_number,
    read_style,
    read_text,
    unknown_preset,
    unknown_word,
)
from functions.compat.voicevox.speech_routes import QueryRoutes, SynthesisRoutes
from functions.compat.voicevox.user_data import MOST_WORDS
from shared.speech.text.dictionary import WordError, WordType, make_word

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from functions.compat.service.synthesis import Synthesis
    from functions.compat.voicevox.speakers import VoicevoxSpeakers
    from functions.compat.voicevox.user_data import UserData
    from shared.speech.text.dictionary import DictionaryWord


_MANIFEST: Final = {
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
    "supported_features": {
        "adjust_mora_pitch": False,
        "adjust_phoneme_length": False,
        "adjust_speed_scale": True,
        "adjust_pitch_scale": True,
        "adjust_intonation_scale": True,
        "adjust_volume_scale": True,
        "adjust_pause_length": True,
        "interrogative_upspeak": True,
        "synthesis_morphing": False,
        "streaming_synthesis": True,
        "sing": False,
        "manage_library": False,
        "return_resource_url": False,
    },
}


def always(body: object) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return JSONResponse(body)

    return answer


_WORDS = TypeAdapter(
    Annotated[dict[UUID, queries.UserDictWord], Field(max_length=MOST_WORDS), FailFast()]
)
_ANY_WORDS = TypeAdapter(dict[str, queries.UserDictWord])
_Result = TypeVar("_Result")


class DataRoutes:
    def __init__(self, services: VoicevoxServices, version: str) -> None:
        self._version = version
        self._voices, self._synthesis = services.voices, services.synthesis
        self._presets = services.user_data.presets
        self._dictionary = services.user_data.dictionary

    def routes(self) -> list[Route]:
        word = "/user_dict_word/{number}"
        return [
            Route("/version", always(self._version)),
            Route("/core_versions", always([self._version])),
            Route("/supported_devices", always({"cpu": True, "cuda": False, "dml": False})),
            Route("/engine_manifest", always(_MANIFEST)),
            Route("/speakers", self.list_speakers),
            Route("/speaker_info", self.show_speaker),
            Route("/initialize_speaker", self.initialize, methods=["POST"]),
            Route("/is_initialized_speaker", self.is_initialized),
            Route("/presets", self.list_presets),
            Route("/add_preset", self.add_preset, methods=["POST"]),
            Route("/update_preset", self.update_preset, methods=["POST"]),
            Route("/delete_preset", self.delete_preset, methods=["POST"]),
            Route("/user_dict", self.list_words),
            Route("/user_dict_word", self.add_word, methods=["POST"]),
            Route(word, self.update_word, methods=["PUT"]),
            Route(word, self.delete_word, methods=["DELETE"]),
            Route("/import_user_dict", self.import_words, methods=["POST"]),
        ]

    async def list_speakers(self, _: Request) -> Response:
        return JSONResponse([speaker.summary() for speaker in self._voices.speakers])

    async def show_speaker(self, request: Request) -> Response:
        speaker = self._voices.find_speaker(read_text(request, "speaker_uuid"))
        if speaker is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "該当する話者が見つかりません")
        return JSONResponse(speaker.details())

    async def initialize(self, request: Request) -> Response:
        read_style(self._voices, request)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def is_initialized(self, request: Request) -> Response:
        read_style(self._voices, request)
        return JSONResponse(content=True)

    async def list_words(self, request: Request) -> Response:
        def write() -> bytes:
            self._dictionary.refresh()
            known = self._dictionary.words()
            return _ANY_WORDS.dump_json(
                {name: queries.user_dict_word_of(word) for name, word in known.items()}
            )

        return Response(await self._in_turn(request, write), media_type="application/json")

    async def add_word(self, request: Request) -> Response:
        word = read_word(request)
        return JSONResponse(await self._in_turn(request, lambda: self._dictionary.add(word)))

    async def update_word(self, request: Request) -> Response:
        number, word = request.path_params["number"], read_word(request)
        if not await self._in_turn(request, lambda: self._dictionary.update(number, word)):
            raise unknown_word()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def delete_word(self, request: Request) -> Response:
        number = request.path_params["number"]
        if not await self._in_turn(request, lambda: self._dictionary.delete(number)):
            raise unknown_word()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def import_words(self, request: Request) -> Response:
        override = read_flag(request, "override", default=False)
        body = await read_body(request)

        def merge() -> None:
            bodies = _WORDS.validate_json(body)
            known = {
                str(number): queries.dictionary_word_of(each) for number, each in bodies.items()
            }
            self._dictionary.merge(known, override=override)

        await self._in_turn(request, merge)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _in_turn(self, request: Request, act: Callable[[], _Result]) -> _Result:
        return await self._synthesis.compute(act, key_owner_of(request.scope))

    async def list_presets(self, _: Request) -> Response:
        presets = await asyncio.to_thread(self._presets.all)
        return JSONResponse([preset.model_dump(by_alias=True) for preset in presets])

    async def add_preset(self, request: Request) -> Response:
        preset = Preset.model_validate_json(await read_body(request))
        return JSONResponse(await asyncio.to_thread(self._presets.add, preset))

    async def update_preset(self, request: Request) -> Response:
        preset = Preset.model_validate_json(await read_body(request))
        if not await asyncio.to_thread(self._presets.update, preset.id, preset):
            raise unknown_preset()
        return JSONResponse(preset.id)

    async def delete_preset(self, request: Request) -> Response:
        if not await asyncio.to_thread(self._presets.delete, read_number(request, "id")):
            raise unknown_preset()
        return Response(status_code=HTTPStatus.NO_CONTENT)


def read_word(request: Request) -> DictionaryWord:
    kind = request.query_params.get("word_type", WordType.PROPER_NOUN)
    if kind not in set(WordType):
        raise WordError(f"word_type: expected one of {', '.join(WordType)}, found {kind[:40]!r}.")
    return make_word(
        read_text(request, "surface"),
        read_text(request, "pronunciation"),
        read_number(request, "accent_type"),
        WordType(kind),
        read_number(request, "priority", default=5),
    )


VERSION: Final = "0.24.1"  # of VOICEVOX with these routes; clients compare it

_LEFT_OUT = (
    "/cancellable_synthesis",
    "/frame_synthesis",
    "/sing_frame_audio_query",
    "/sing_frame_volume",
    "/singer_info",
    "/singers",
    "/synthesis_morphing",
)

_CHANGES = (
    "/add_preset",
    "/delete_preset",
    "/import_user_dict",
    "/update_preset",
    "/user_dict_word",
    "/user_dict_word/{number}",
)


@dataclass(frozen=True)
class VoicevoxServices:
    voices: VoicevoxSpeakers
    user_data: UserData
    synthesis: Synthesis
    meter: Meter = field(default_factory=Meter)


def build(
    services: VoicevoxServices, *, version: str = VERSION, is_alone: bool = True
) -> Starlette:
    voices, user_data, synthesis = services.voices, services.user_data, services.synthesis
    left_out = _LEFT_OUT if is_alone else (*_LEFT_OUT, *_CHANGES)
    return Starlette(
        routes=[
            *(Route(path, _left_out, methods=["DELETE", "POST", "PUT"]) for path in left_out),
            *DataRoutes(services, version).routes(),
            *QueryRoutes(voices, user_data, synthesis).routes(),
            *SynthesisRoutes(voices, synthesis, services.meter).routes(),
            *(Route(path, _left_out) for path in _LEFT_OUT),
        ],
        exception_handlers=exception_handlers(),
    )


async def _left_out(_: Request) -> Response:
    raise HTTPException(HTTPStatus.NOT_IMPLEMENTED, "This service does not offer this.")
