"""on_upload: Cloud Storage tells of a finished upload, a conversion message goes out.

The way of a voice, part two: topic `uploads` -> **on_upload** -> topic `conversions`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

import functions_framework.aio

from functions.on_upload.settings import OnUploadSettings
from functions.on_upload.uploads import UploadHandler
from shared import logs, settings
from shared.google import clients
from shared.http.push import push_app

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


@cache
def application() -> Starlette:
    """Build the application from the environment, once per process, at its first request."""
    config = settings.load(OnUploadSettings)
    logs.configure(config.project_id, config.log_level)
    handler = UploadHandler(
        voices=clients.open_voices(config),
        conversions=clients.open_publisher(config, config.conversions_topic),
        uploads=cache(lambda: clients.open_bucket(config, config.uploads_bucket)),
    )
    return push_app(clients.open_push_verifier(config), handler.handle)


@functions_framework.aio.http
async def on_upload(_request: Request) -> Response:
    """Hand every request to the application."""
    return cast("Response", application())  # a function may answer with any ASGI application
