"""Routes that tell what the service is and which speakers it has."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.voicevox.queries import queries
from functions.compat.voicevox.routes.parameters import read_style, read_text

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.compat.voicevox.speech.voices import Voices


class InfoRoutes:
    """What the service is and which voices it has.

    Args:
        version: of the service.
        voices: that it has.
    """

    def __init__(self, version: str, voices: Voices) -> None:
        self._version_number = version
        self._voices = voices

    def routes(self) -> list[Route]:
        """Return the routes."""
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
        return JSONResponse(self._version_number)

    async def _core_versions(self, _: Request) -> Response:
        return JSONResponse([self._version_number])

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
            "streaming_synthesis": True,
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
        speaker = self._voices.find_speaker(read_text(request, "speaker_uuid"))
        if speaker is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "該当する話者が見つかりません")
        return JSONResponse(speaker.details())

    async def _initialize(self, request: Request) -> Response:
        read_style(self._voices, request)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _is_initialized(self, request: Request) -> Response:
        read_style(self._voices, request)
        return JSONResponse(content=True)
