"""Scaling to zero, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import httpx
import pytest_asyncio

from infra.local.configuration.options import ROOT, LivenessProbe, Scaling
from infra.local.processes import scale_to_zero
from infra.local.processes.children import Supervisor
from tests.support import container

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from infra.local.processes.children import Process

PATIENCE_SECONDS = 30.0
FOR_EVER = 3600.0
NEVER_PROBED = LivenessProbe(period_seconds=FOR_EVER)


class ContainerEvents:
    """Receives the events of a test's containers, and lets them continue."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
        self._containers: dict[int, asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._listen, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._server.close()
        for writer in self._containers.values():
            writer.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def next(self, expected: str) -> int:
        """Wait for the next event, which must be this one; return the container's process id."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            event, pid = await self._events.get()
        assert event == expected
        return pid

    def permit(self, pid: int) -> None:
        self._containers[pid].write(b"!")

    def is_silent(self) -> bool:
        return self._events.empty()

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                event, pid = json.loads(line)
                self._containers[pid] = writer
                self._events.put_nowait((event, pid))


class Proxied:
    def __init__(self, process: Process, client: httpx.AsyncClient, broken: Path) -> None:
        self.process = process
        self.client = client
        self.broken = broken

    async def get(self, path: str = "/") -> httpx.Response:
        return await self.client.get(path)


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[ContainerEvents]:
    async with ContainerEvents() as stage:
        yield stage


@asynccontextmanager
async def proxied(
    folder: Path, stage: ContainerEvents, idle_seconds: float = FOR_EVER
) -> AsyncIterator[Proxied]:
    supervisor = Supervisor(folder)
    (port,) = supervisor.ports.free(1)
    url, broken = f"http://127.0.0.1:{port}", folder / "broken"
    scaling = Scaling(idle_seconds)
    command = scale_to_zero.command(
        "convert", port, logs=folder, ready_path="/readyz", scaling=scaling, liveness=NEVER_PROBED
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "STAGE": stage.address,
        "BROKEN": str(broken),
    }
    try:
        process = await supervisor.start(
            "proxy", [*command, sys.executable, str(Path(container.__file__))], environment
        )
        await supervisor.wait_until_ready(process, f"{url}/healthz")
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
            yield Proxied(process, client, broken)
    finally:
        await supervisor.stop_all()


async def test_requests_that_come_together_share_one_start_and_the_next_finds_the_instance(
    stage: ContainerEvents, tmp_path: Path
) -> None:
    async with proxied(tmp_path, stage) as proxy:
        assert stage.is_silent()

        answers = await asyncio.gather(*(proxy.get("/path?query=a%20b") for _ in range(20)))
        answers.append(await proxy.get("/path?query=a%20b"))

        pid = await stage.next("started")
        assert {answer.text for answer in answers} == {"/path?query=a%20b"}
        assert {answer.headers["x-pid"] for answer in answers} == {str(pid)}
        assert stage.is_silent()


async def test_an_idle_instance_is_stopped_but_not_under_a_request(
    stage: ContainerEvents, tmp_path: Path
) -> None:
    async with proxied(tmp_path, stage, idle_seconds=0) as proxy:
        held = asyncio.create_task(proxy.get("/held"))
        pid = await stage.next("started")
        await stage.next("held")

        # With nothing else in flight, the end of this one would be the end of the instance.
        other = await proxy.get()
        assert other.headers["x-pid"] == str(pid)
        assert stage.is_silent()

        stage.permit(pid)
        assert (await held).status_code == 200
        assert await stage.next("stopping") == pid
        assert await stage.next("stopped") == pid

        another = await proxy.get()
        assert await stage.next("started") == int(another.headers["x-pid"]) != pid


async def test_a_crash_is_answered_503_and_the_next_request_starts_anew(
    stage: ContainerEvents, tmp_path: Path
) -> None:
    async with proxied(tmp_path, stage) as proxy:
        proxy.broken.touch()
        assert (await proxy.get()).status_code == 503
        assert "the settings are wrong" in proxy.process.log.read_text()

        proxy.broken.unlink()
        before = await proxy.get()
        assert before.status_code == 200
        assert (await proxy.get("/crash")).status_code == 503

        after = await proxy.get()
        assert after.status_code == 200
        assert after.headers["x-pid"] != before.headers["x-pid"]


async def test_a_killed_front_leaves_no_instance_behind(
    stage: ContainerEvents, tmp_path: Path
) -> None:
    async with proxied(tmp_path, stage) as proxy:
        await proxy.get()
        pid = await stage.next("started")

        proxy.process.send_signal(signal.SIGKILL)

        assert await stage.next("stopping") == pid
        assert await stage.next("stopped") == pid
