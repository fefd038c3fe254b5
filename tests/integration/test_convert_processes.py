"""Several processes of the conversion container behind one port."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from infra.local.configuration.keys import make_key
from infra.local.configuration.options import ROOT
from infra.local.processes.children import Process, Supervisor
from tests.integration.served import SAMPLE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

NOWHERE = "127.0.0.1:9"


class RunningContainer:
    def __init__(self, process: Process, url: str) -> None:
        self.process = process
        self.url = url

    def workers(self) -> set[int]:
        return {child.pid for child in psutil.Process(self.process.pid).children()}

    def started(self) -> int:
        lines = self.process.log.read_text().splitlines()
        return sum(
            json.loads(line).get("event") == "instance_started"
            for line in lines
            if line.startswith("{")
        )

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_so():  # noqa: ASYNC110 - other processes set no event
                await asyncio.sleep(0.02)


@asynccontextmanager
async def starting(
    folder: Path, supervisor: Supervisor, **changes: str
) -> AsyncIterator[RunningContainer]:
    make_key().write(folder / "key.json")
    (port,) = supervisor.ports.free(1)
    environment = {
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
        "ENVIRONMENT": "local",
        "PUSH_VERIFICATION": "off",
        "PROJECT_ID": "nobodys-project",
        "UPLOADS_BUCKET": "uploads",
        "RESULTS_BUCKET": "results",
        "SIGNING_KEY_FILE": str(folder / "key.json"),
        "STORAGE_EMULATOR_HOST": f"http://{NOWHERE}",
        "FIRESTORE_EMULATOR_HOST": NOWHERE,
        "HOST": "127.0.0.1",
        "PORT": str(port),
        **changes,
    }
    try:
        command = [sys.executable, "-m", "functions.convert"]
        process = await supervisor.start("convert", command, environment)
        yield RunningContainer(process, f"http://127.0.0.1:{port}")
    finally:
        await supervisor.stop_all()


@asynccontextmanager
async def running(folder: Path, **changes: str) -> AsyncIterator[RunningContainer]:
    supervisor = Supervisor(folder / "logs")
    async with starting(folder, supervisor, **changes) as container:
        await supervisor.wait_until_ready(container.process, f"{container.url}/readyz")
        yield container


async def test_a_container_of_one_process_listens_only_when_it_can_convert(tmp_path: Path) -> None:
    async with (
        starting(tmp_path, Supervisor(tmp_path / "logs"), WORKERS="1") as container,
        httpx.AsyncClient(base_url=container.url) as client,
        asyncio.timeout(60),
    ):
        answer = None
        while answer is None:
            with suppress(httpx.ConnectError):
                answer = await client.get("/readyz")
            await asyncio.sleep(0)

    assert answer.status_code == httpx.codes.NO_CONTENT


async def test_a_process_that_is_killed_is_replaced_and_the_other_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path, WORKERS="2") as container:
        await container.until(lambda: container.started() == 2)
        victim, survivor = container.workers()
        os.kill(victim, signal.SIGKILL)

        await container.until(lambda: container.started() == 3)

        assert survivor in container.workers()
        assert victim not in container.workers()
        async with httpx.AsyncClient(base_url=container.url) as client:
            assert (await client.get("/readyz")).status_code == httpx.codes.NO_CONTENT
        container.process.send_signal(signal.SIGTERM)
        assert await container.process.wait() == 0


async def test_a_process_is_replaced_after_its_share_of_work(tmp_path: Path) -> None:
    """Its requests do not count: whoever asks only how it is has nothing replaced."""
    async with (
        running(tmp_path, WORKERS="1", MAX_WORK_SECONDS="0.001") as container,
        httpx.AsyncClient(base_url=container.url, timeout=60) as client,
    ):
        (first,) = container.workers()
        for _ in range(50):
            assert (await client.get("/healthz")).is_success
        assert container.workers() == {first}
        assert (await client.post("/verifications", content=SAMPLE.read_bytes())).is_success

        await container.until(lambda: container.started() == 2 and first not in container.workers())
        assert (await client.get("/healthz")).is_success


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_without_a_character_it_ends_with_a_clear_message(
    tmp_path: Path, workers: str
) -> None:
    changes = {"WORKERS": workers, "CONCURRENCY": workers, "CHARACTERS_DIR": str(tmp_path)}
    async with (
        starting(tmp_path, Supervisor(tmp_path / "logs"), **changes) as container,
        asyncio.timeout(60),
    ):
        assert await container.process.wait() == 2

    log = container.process.log.read_text()
    assert f"{tmp_path}: expected at least one character bundle, found none.\n" in log
    assert "Traceback" not in log
