"""Routes for presets."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.voicevox.queries.models import Preset
from functions.compat.voicevox.routes.errors import unknown_preset
from functions.compat.voicevox.routes.parameters import read_body, read_number

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.compat.voicevox.memory.memory import Presets


class PresetRoutes:
    """The settings that clients keep."""

    def __init__(self, presets: Presets) -> None:
        self._presets = presets

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/presets", self._list_presets),
            Route("/add_preset", self._add_preset, methods=["POST"]),
            Route("/update_preset", self._update_preset, methods=["POST"]),
            Route("/delete_preset", self._delete_preset, methods=["POST"]),
        ]

    async def _list_presets(self, _: Request) -> Response:
        presets = await asyncio.to_thread(self._presets.all)
        return JSONResponse([preset.model_dump(by_alias=True) for preset in presets])

    async def _add_preset(self, request: Request) -> Response:
        preset = Preset.model_validate_json(await read_body(request))
        return JSONResponse(await asyncio.to_thread(self._presets.add, preset))

    async def _update_preset(self, request: Request) -> Response:
        preset = Preset.model_validate_json(await read_body(request))
        if not await asyncio.to_thread(self._presets.update, preset):
            raise unknown_preset()
        return JSONResponse(preset.id)

    async def _delete_preset(self, request: Request) -> Response:
        if not await asyncio.to_thread(self._presets.delete, read_number(request, "id")):
            raise unknown_preset()
        return Response(status_code=HTTPStatus.NO_CONTENT)
