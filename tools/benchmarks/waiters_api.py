"""The api as it is deployed, with a page that counts its waiting clients.

Served by `functions_framework`, as `functions/api/main.py` is.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import cast

from fastapi import FastAPI

from functions.api import main
from functions.api.settings import ApiSettings
from shared.google.firestore import RenewableClient
from shared.google.listener import DocumentListener
from shared.google.voices import FirestoreVoices
from shared.runtime.function import cloud_function
from shared.voices.voice import Voice


class CountedVoices(FirestoreVoices):
    """The voices in Firestore, with the number of waiters that have seen the present state."""

    def __init__(self, client: RenewableClient, listener: DocumentListener) -> None:
        super().__init__(client, listener)
        self.listener = listener
        self.waiting = 0

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        async with super().watch(voice_id) as states, aclosing(self._counted(states)) as counted:
            yield counted

    async def _counted(self, states: AsyncIterator[Voice | None]) -> AsyncGenerator[Voice | None]:
        first = await anext(states)
        self.waiting += 1
        try:
            yield first
            async for state in states:
                yield state
        finally:
            self.waiting -= 1


def open_services(config: ApiSettings) -> main.ApiServices:
    client = RenewableClient(project=config.project_id)
    listener = DocumentListener(client, targets_per_stream=config.listen_targets_per_stream)
    return replace(main.open_services(config), voices=CountedVoices(client, listener))


def build(config: ApiSettings, services: main.ApiServices) -> FastAPI:
    app = main.build(config, services)
    voices = cast("CountedVoices", services.voices)

    @app.get("/counts")
    async def counts() -> dict[str, int]:
        return {
            "pid": os.getpid(),
            "waiting": voices.waiting,
            "streams": voices.listener.stream_count,
        }

    return app


api = cloud_function("api", ApiSettings, open_services, build)
