from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.responses import PlainTextResponse

from infra.local.configuration.options import LivenessProbe
from infra.local.processes.cloud_run import RestartableApp, keep_alive, wait_until_stuck
from tests.support.http_server import Answer, Asked, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.types import ASGIApp


PROBE = LivenessProbe(period_seconds=0.001, failure_threshold=3)
PATIENCE_SECONDS = 30.0


@contextmanager
def probed(*statuses: int) -> Iterator[tuple[str, list[str]]]:
    """Answer probes with these statuses in turn, then with the last one; note their paths."""
    probes: list[str] = []

    def answer(asked: Asked) -> Answer:
        probes.append(asked.path)
        return Answer(b"", statuses[min(len(probes), len(statuses)) - 1])

    with serving(answer) as url:
        yield url, probes


async def test_a_converter_is_stuck_after_three_failed_probes_in_a_row() -> None:
    with probed(204, 503, 503, 204, 503, 503, 503) as (url, probes):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await wait_until_stuck(url, PROBE)
            await wait_until_stuck("http://127.0.0.1:9", PROBE)  # nothing answers there

    assert probes == ["/healthz"] * 7


async def test_a_stuck_converter_is_restarted_again_and_again_even_if_a_restart_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    restarts = 0

    async def restart() -> None:
        nonlocal restarts
        restarts += 1
        if restarts == 1:
            raise RuntimeError("it does not start")
        if restarts == 3:
            raise asyncio.CancelledError

    with probed(503) as (url, _), pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await keep_alive(url, PROBE, restart)

    assert restarts == 3
    assert "could not be restarted" in caplog.text


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


async def test_a_restart_starts_another_application_also_after_one_that_failed() -> None:
    starts = Starts()
    async with RestartableApp(starts.start) as app, client_of(app) as client:
        assert (await client.get("/")).text == "1"
        starts.works = False
        with pytest.raises(RuntimeError, match="it does not start"):
            await app.restart()
        with pytest.raises(RuntimeError, match="the application is not started"):
            await client.get("/")
        starts.works = True

        await app.restart()

        assert (await client.get("/")).text == "2"
        assert starts.running == [2]
    assert starts.running == []
