"""The routes that clients of VOICEVOX and AivisSpeech call.

Bodies, status codes and content types are those of the engines' OpenAPI documents; what is left out
answers 501.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from functions.compat.keys.metering import Meter
from functions.compat.speech.synthesis import SpeechLimits, Synthesis
from functions.compat.voicevox.routes.dictionary_routes import DictionaryRoutes
from functions.compat.voicevox.routes.errors import exception_handlers
from functions.compat.voicevox.routes.info_routes import InfoRoutes
from functions.compat.voicevox.routes.preset_routes import PresetRoutes
from functions.compat.voicevox.routes.query_routes import QueryRoutes
from functions.compat.voicevox.routes.synthesis_routes import SynthesisRoutes

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from conversion.admission import Admission
    from functions.compat.voicevox.memory.memory import Presets, UserDictionary
    from functions.compat.voicevox.speech.voices import Voices

VERSION: Final = "0.24.1"
"""The version of VOICEVOX whose routes these are; clients compare it."""

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
class Settings:
    """What the service needs to know.

    Attributes:
        version: of the service, as `GET /version` says it.
        limits: of what is spoken.
        is_alone: whether there is no other instance, so that presets and words can be kept; if not,
            requests that change them answer 501.
        retry_after_seconds: when clients may come again that are sent away with 503.
    """

    version: str
    limits: SpeechLimits = field(default_factory=SpeechLimits)
    is_alone: bool = True
    retry_after_seconds: int = 1


@dataclass(frozen=True)
class Services:
    """What the service speaks with.

    Attributes:
        voices: that speak.
        presets: that clients keep.
        dictionary: the words that clients add.
        admission: how much is done at once in this process, and how much may wait.
    """

    voices: Voices
    presets: Presets
    dictionary: UserDictionary
    admission: Admission


def build(
    settings: Settings,
    services: Services,
    synthesis: Synthesis | None = None,
    meter: Meter | None = None,
) -> Starlette:
    """Build the application.

    Args:
        settings: what it needs to know.
        services: what it speaks with.
        synthesis: speaks for other dialects, too; None for one of its own.
        meter: counts what each key has; None for one without limits.
    """
    voices, presets, dictionary = services.voices, services.presets, services.dictionary
    synthesis = synthesis or Synthesis(services.admission, settings.limits)
    left_out = _LEFT_OUT if settings.is_alone else (*_LEFT_OUT, *_CHANGES)
    return Starlette(
        routes=[
            *(Route(path, _left_out, methods=["DELETE", "POST", "PUT"]) for path in left_out),
            *InfoRoutes(settings.version, voices).routes(),
            *QueryRoutes(voices, presets, dictionary, synthesis).routes(),
            *SynthesisRoutes(voices, synthesis, meter or Meter()).routes(),
            *PresetRoutes(presets).routes(),
            *DictionaryRoutes(dictionary, synthesis).routes(),
            *(Route(path, _left_out) for path in _LEFT_OUT),
        ],
        exception_handlers=exception_handlers(settings.retry_after_seconds),
    )


async def _left_out(_: Request) -> Response:
    raise HTTPException(HTTPStatus.NOT_IMPLEMENTED, "This service does not offer this.")
