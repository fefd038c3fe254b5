from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.responses import PlainTextResponse

from infra.local.processes.restartable import RestartableApp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp


class Starts:
    """Starts applications that answer with their number."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.running: list[int] = []
        self.works = True

    @asynccontextmanager
    async def start(self) -> AsyncIterator[ASGIApp]:
        if not self.works:
            raise RuntimeError("it does not start")
        number = next(self._numbers)
        self.running.append(number)
        try:
            yield PlainTextResponse(str(number))
        finally:
            self.running.remove(number)


def client_of(app: RestartableApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app.test")


async def test_a_restart_stops_the_application_and_starts_another() -> None:
    starts = Starts()
    async with RestartableApp(starts.start) as app, client_of(app) as client:
        assert (await client.get("/")).text == "1"

        await app.restart()

        assert (await client.get("/")).text == "2"
        assert starts.running == [2]
    assert starts.running == []


async def test_after_a_restart_that_failed_the_next_one_tries_again() -> None:
    starts = Starts()
    async with RestartableApp(starts.start) as app, client_of(app) as client:
        starts.works = False
        with pytest.raises(RuntimeError, match="it does not start"):
            await app.restart()
        with pytest.raises(RuntimeError, match="the application is not started"):
            await client.get("/")
        starts.works = True

        await app.restart()

        assert (await client.get("/")).text == "2"
