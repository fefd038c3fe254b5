"""on_upload with barriers: `python -m tests.robustness.faults.on_upload_with_barriers PORT`."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace

import uvicorn

from functions.on_upload.main import build, open_services
from functions.on_upload.settings import OnUploadSettings
from shared.runtime import settings
from tests.robustness.faults.barriers import VARIABLE, Checkpoints
from tests.robustness.faults.collaborators import BarrierVoices, NotedPublisher


async def serve(config: OnUploadSettings, port: int) -> None:
    checkpoints = Checkpoints(os.environ[VARIABLE])
    services = open_services(config)
    wrapped = replace(
        services,
        voices=BarrierVoices(services.voices, checkpoints),
        conversions=NotedPublisher(services.conversions, checkpoints),
    )
    app = build(config, wrapped)
    server = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, ws="none")
    await uvicorn.Server(server).serve()


def main(port: str) -> None:
    config = settings.load(OnUploadSettings)
    config.configure_logs()
    asyncio.run(serve(config, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
