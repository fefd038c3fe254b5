"""on_upload with barriers: `python -m tests.faults.on_upload_with_barriers PORT`."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import cache

import uvicorn

from functions.on_upload.settings import OnUploadSettings
from functions.on_upload.uploads import UploadHandler
from shared import logs, settings
from shared.google import clients
from shared.http.push import push_app
from tests.faults.barriers import VARIABLE, Checkpoints
from tests.faults.collaborators import BarrierPublisher, BarrierVoices


async def serve(config: OnUploadSettings, port: int) -> None:
    checkpoints = Checkpoints(os.environ[VARIABLE])
    conversions = clients.open_publisher(config, config.conversions_topic)
    handler = UploadHandler(
        voices=BarrierVoices(clients.open_voices(config), checkpoints),
        conversions=BarrierPublisher(conversions, checkpoints),
        uploads=cache(lambda: clients.open_bucket(config, config.uploads_bucket)),
    )
    app = push_app(clients.open_push_verifier(config), handler.handle)
    server = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, ws="none")
    await uvicorn.Server(server).serve()


def main(port: str) -> None:
    config = settings.load(OnUploadSettings)
    logs.configure(config.project_id, config.log_level)
    asyncio.run(serve(config, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
