"""The routes that clients of VOICEVOX and AivisSpeech call.

Bodies, status codes and content types are those of the engines' OpenAPI documents; what is left out
answers 501.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from functions.convert.admission import Admission
from functions.convert.live.voicevox.dictionary_routes import DictionaryRoutes
from functions.convert.live.voicevox.errors import exception_handlers
from functions.convert.live.voicevox.info_routes import InfoRoutes
from functions.convert.live.voicevox.preset_routes import PresetRoutes
from functions.convert.live.voicevox.query_routes import QueryRoutes
from functions.convert.live.voicevox.synthesis_routes import SynthesisRoutes

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from functions.convert.admission import Slots
    from functions.convert.live.voicevox.memory import Presets, UserDictionary
    from functions.convert.live.voicevox.voices import Voices

_LEFT_OUT = (
    "/cancellable_synthesis",
    "/frame_synthesis",
    "/sing_frame_audio_query",
    "/sing_frame_volume",
    "/singer_info",
    "/singers",
    "/synthesis_morphing",
)


@dataclass(frozen=True)
class Settings:
    """What the service needs to know.

    Attributes:
        version: of the service, as `GET /version` says it.
        concurrency: how many texts are spoken at once, by all processes together.
        backlog: how many more may wait in this process; others are sent away with 503.
        retry_after_seconds: when those may come again.
    """

    version: str
    concurrency: int = 2
    backlog: int = 8
    retry_after_seconds: int = 1


@dataclass(frozen=True)
class Services:
    """What the service speaks with.

    Attributes:
        voices: that speak.
        presets: that clients keep.
        dictionary: the words that clients add.
        slots: limit what several processes speak at once; None if there is only this one.
    """

    voices: Voices
    presets: Presets
    dictionary: UserDictionary
    slots: Slots | None = None


def build(settings: Settings, services: Services) -> Starlette:
    """Build the application."""
    voices, presets, dictionary = services.voices, services.presets, services.dictionary
    admission = Admission(
        running=settings.concurrency, waiting=settings.backlog, slots=services.slots
    )
    return Starlette(
        routes=[
            *InfoRoutes(settings.version, voices).routes(),
            *QueryRoutes(voices, presets, dictionary).routes(),
            *SynthesisRoutes(voices, admission).routes(),
            *PresetRoutes(presets).routes(),
            *DictionaryRoutes(dictionary).routes(),
            *(Route(path, _left_out, methods=["GET", "POST"]) for path in _LEFT_OUT),
        ],
        exception_handlers=exception_handlers(settings.retry_after_seconds),
    )


async def _left_out(_: Request) -> Response:
    raise HTTPException(HTTPStatus.NOT_IMPLEMENTED, "This service does not offer this.")
