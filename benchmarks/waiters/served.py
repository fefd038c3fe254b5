"""The api, as it is deployed, but for how it watches documents, and with a page of its counts.

Served by `functions_framework`, as `functions/api/main.py` is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from benchmarks.waiters.alternatives import Alternative, CountedVoices, open_counted_voices
from functions.api import main
from functions.api.settings import ApiSettings
from shared.http.function import cloud_function

if TYPE_CHECKING:
    from fastapi import FastAPI

ALTERNATIVE_VARIABLE: Final = "BENCHMARK_ALTERNATIVE"


def open_services(config: ApiSettings) -> main.Services:
    """Open the api's clients, with voices that are watched in one of the ways and counted."""
    voices = open_counted_voices(
        Alternative(os.environ[ALTERNATIVE_VARIABLE]),
        config.project_id,
        targets_per_stream=config.listen_targets_per_stream,
    )
    return replace(main.open_services(config), voices=voices)


def build(config: ApiSettings, services: main.Services) -> FastAPI:
    """Build the api, with a page of the counts."""
    app = main.build(config, services)
    voices = cast("CountedVoices", services.voices)

    @app.get("/counts")
    async def counts() -> dict[str, int]:
        return {
            "pid": os.getpid(),
            "waiting": voices.waiting,
            "reads": voices.reads,
            "streams": voices.watcher.stream_count,
        }

    return app


api = cloud_function("api", ApiSettings, open_services, build)
