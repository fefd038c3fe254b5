"""sweep: finds the voices whose event or message was lost, every few minutes.

The way of a voice, when something vanished: Cloud Scheduler -> **sweep** -> topic `conversions`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, cast

import functions_framework.aio

from functions.sweep.app import create_app
from functions.sweep.decision import Patience
from functions.sweep.settings import SweepSettings
from functions.sweep.sweeping import Sweeper
from shared import logs, settings
from shared.google import clients

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


@cache
def application() -> Starlette:
    """Build the application from the environment, once per process, at its first request."""
    config = settings.load(SweepSettings)
    logs.configure(config.project_id, config.log_level)
    sweeper = Sweeper(
        voices=clients.open_voices(config),
        uploads=clients.open_bucket(config, config.uploads_bucket),
        conversions=clients.open_publisher(config, config.conversions_topic),
        patience=Patience.of(
            unchanged_seconds=config.patience_seconds,
            upload_url_seconds=config.upload_url_seconds,
        ),
        now=lambda: datetime.now(UTC),
    )
    return create_app(sweeper, clients.open_push_verifier(config))


@functions_framework.aio.http
async def sweep(_request: Request) -> Response:
    """Hand every request to the application."""
    return cast("Response", application())  # a function may answer with any ASGI application
