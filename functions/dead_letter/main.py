"""dead_letter: a message that nobody could handle ends its voice, visibly.

The way of a voice, when it goes wrong: dead-letter topic -> **dead_letter** -> `failed`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

import functions_framework.aio

from functions.dead_letter.giving_up import DeadLetterHandler
from functions.dead_letter.settings import DeadLetterSettings
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
    config = settings.load(DeadLetterSettings)
    logs.configure(config.project_id, config.log_level)
    handler = DeadLetterHandler(
        clients.open_voices(config), clients.open_bucket(config, config.results_bucket)
    )
    return push_app(clients.open_push_verifier(config), handler.handle)


@functions_framework.aio.http
async def dead_letter(_request: Request) -> Response:
    """Hand every request to the application."""
    return cast("Response", application())  # a function may answer with any ASGI application
