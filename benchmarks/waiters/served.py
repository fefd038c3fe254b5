"""The api, as it is deployed, but for how it watches documents, and with a page of its counts.

Served by `functions_framework`, as `functions/api/main.py` is.
"""

from __future__ import annotations

import gc
import os
from functools import cache
from typing import TYPE_CHECKING, Final, cast

import functions_framework.aio

from benchmarks.waiters.alternatives import Alternative, open_counted_voices
from functions.api.main import build
from functions.api.settings import ApiSettings
from shared import logs, settings
from shared.google import clients

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

ALTERNATIVE_VARIABLE: Final = "BENCHMARK_ALTERNATIVE"


@cache
def application() -> FastAPI:
    """Build the application from the environment."""
    config = settings.load(ApiSettings)
    logs.configure(config.project_id, config.log_level)
    voices = open_counted_voices(
        Alternative(os.environ[ALTERNATIVE_VARIABLE]),
        config.project_id,
        targets_per_stream=config.listen_targets_per_stream,
    )
    app = build(
        config,
        voices=voices,
        uploads=clients.open_bucket(config, config.uploads_bucket, clients.open_signer(config)),
        results=clients.open_bucket(config, config.results_bucket),
    )

    @app.get("/counts")
    async def counts() -> dict[str, int]:
        return {
            "pid": os.getpid(),
            "waiting": voices.waiting,
            "reads": voices.reads,
            "streams": voices.watcher.stream_count,
        }

    gc.freeze()
    return app


@functions_framework.aio.http
async def api(_request: Request) -> Response:
    """Hand every request to the application."""
    return cast("Response", application())  # a function may answer with any ASGI application
