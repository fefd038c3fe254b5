"""A process that is replaced or stopped ends its answers; Ctrl-C, and a port that is taken."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import httpx
import psutil

from infra.local.configuration.names import Ports
from tests.integration.compat.conftest import ROOT, START_SECONDS, wait_for
from tests.support.examples import commands

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SENTENCE: Final = "今日はとてもいい天気ですね。"
LONG: Final = {
    "model": "tts-1",
    "voice": "mei",
    "input": SENTENCE * 60,
    "response_format": "pcm",
}
SHORT: Final = LONG | {"input": SENTENCE}
READING_SECONDS: Final = 8.0
"""How long a client takes for a long answer: longer than a process that stops waits for it."""

PIPELINED: Final = 50
REFUSED: Final = b"GET /version HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n" * PIPELINED


@dataclass(frozen=True)
class RunningService:
    port: int
    supervisor: psutil.Process
    log: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def workers(self) -> set[int]:
        """Its processes, without those that decode for them."""
        return {child.pid for child in self.supervisor.children()}


def start(environment: dict[str, str], output: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "functions.compat"],
        env=environment,
        cwd=ROOT,
        stdout=output,
        stderr=subprocess.STDOUT,
    )


@asynccontextmanager
async def running(folder: Path, **variables: str) -> AsyncIterator[RunningService]:
    log = folder / "log"
    with Ports() as ports, log.open("wb") as output:
        port = ports.free(1)[0]
        usual = {"HOST": "127.0.0.1", "GRACEFUL_TIMEOUT": "1"}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PORT": str(port), **usual}
        process = start(environment | variables, output)
        try:
            await asyncio.to_thread(wait_for, f"http://127.0.0.1:{port}", process)
            yield RunningService(port, psutil.Process(process.pid), log)
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, START_SECONDS)


async def hear(client: httpx.AsyncClient) -> int:
    """Hear a long text as a person does who has time; return the bytes that came."""
    heard = 0
    pace = 40 * 3 * 48_000 / READING_SECONDS
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with client.stream("POST", "/v1/audio/speech", json=LONG) as answer:
        assert answer.is_success
        async for piece in answer.aiter_raw():
            heard += len(piece)
            await asyncio.sleep(max(0.0, min(heard / pace, READING_SECONDS) + begin - loop.time()))
    return heard


async def flood(port: int, requests: int) -> None:
    """Send requests that are refused, over new connections."""
    for _ in range(requests // PIPELINED):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REFUSED)
        received = b""
        while received.count(b"HTTP/1.1 421 ") < PIPELINED:
            piece = await reader.read(65_536)
            assert piece, received
            received += piece
        writer.close()
        await writer.wait_closed()


async def test_requests_that_are_refused_replace_no_process_and_cut_no_answer(
    tmp_path: Path,
) -> None:
    async with (
        running(tmp_path, WORKERS="2") as service,
        httpx.AsyncClient(base_url=service.address, timeout=60) as client,
    ):
        whole = len((await client.post("/v1/audio/speech", json=LONG)).content)
        before = service.workers()
        hearing = [asyncio.create_task(hear(client)) for _ in range(2)]
        await asyncio.gather(*(flood(service.port, 2_500) for _ in range(2)))
        assert [await each for each in hearing] == [whole, whole]
        assert service.workers() == before


async def test_a_worn_process_ends_its_answers_while_its_successor_serves(tmp_path: Path) -> None:
    async with (
        running(tmp_path, WORKERS="1", MAX_WORK_SECONDS="0.01") as service,
        httpx.AsyncClient(base_url=service.address, timeout=60) as client,
        httpx.AsyncClient(base_url=service.address, timeout=60) as other,
    ):
        (worn,) = service.workers()
        hearing = asyncio.create_task(hear(client))
        at_once = set()
        while not hearing.done():
            # A connection that is kept open, and one that is not.
            assert (await other.post("/v1/audio/speech", json=SHORT)).is_success
            one = {"Connection": "close"}
            assert (await other.get("/version", headers=one)).is_success
            at_once.add(len(service.workers()))
            await asyncio.sleep(0.05)
        heard = await hearing
        assert heard == len((await other.post("/v1/audio/speech", json=LONG)).content)
        assert at_once == {1, 2}
        async with asyncio.timeout(20):
            while worn in service.workers():  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(0.05)
    booted = re.findall("Booting worker", service.log.read_text())
    assert len(booted) >= 2
    assert "exited with code" not in service.log.read_text()


async def test_a_process_that_retires_ends_when_the_service_stops(tmp_path: Path) -> None:
    async with (
        running(tmp_path, WORKERS="1", MAX_WORK_SECONDS="0.01") as service,
        httpx.AsyncClient(base_url=service.address, timeout=60) as client,
    ):
        hearing = asyncio.create_task(hear(client))
        while len(service.workers()) < 2:  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.05)
        await asyncio.sleep(3)
        begin = asyncio.get_running_loop().time()
        service.supervisor.terminate()
        await asyncio.to_thread(service.supervisor.wait, 20)
        assert asyncio.get_running_loop().time() - begin < 8
        hearing.cancel()


COMMAND = [sys.executable, "-m", "functions.compat"]
LONG_TEXT = "むかしむかし、あるところに、おじいさんとおばあさんがいました。" * 12
GRACE_SECONDS = 8
"""After these Gunicorn would kill what still runs."""


def speak(address: str) -> None:
    """Have a long text spoken; the answer never comes."""
    with suppress(httpx.HTTPError), httpx.Client(base_url=address, timeout=60) as client:
        query = client.post("/audio_query", params={"speaker": 0, "text": LONG_TEXT}).json()
        client.post("/synthesis", params={"speaker": 0}, json=query)


def test_ctrl_c_ends_several_processes_at_once_though_one_of_them_speaks(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Ports() as ports, log.open("w") as output:
        port = ports.free(1)[0]
        (printed,) = commands((ROOT / "docs/compatible-apis.md").read_text(), "WORKERS=2 python ")
        variables = {"PYTHONPATH": str(ROOT), "PORT": str(port), "WORKERS": "2"}
        # To Gunicorn alone, as a supervisor sends it: a terminal also sends it to the processes.
        process = subprocess.Popen(
            [sys.executable, *printed],
            env=os.environ | variables,
            cwd=ROOT,
            stderr=output,
            stdout=output,
        )
        try:
            wait_for(f"http://127.0.0.1:{port}", process)
            speaking = threading.Thread(target=speak, args=[f"http://127.0.0.1:{port}"])
            speaking.start()
            time.sleep(1)
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            code = process.wait(30)
            seconds = time.monotonic() - begin
            speaking.join()
        finally:
            process.kill()

    assert code == 0
    assert seconds < GRACE_SECONDS / 2
    assert "SIGKILL" not in log.read_text()
    assert "ERROR" not in log.read_text()


def test_a_port_that_another_program_has_is_said_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for workers in ("1", "2"):
            variables = {"PYTHONPATH": str(ROOT), "PORT": str(port), "WORKERS": workers}
            ended = subprocess.run(
                COMMAND, env=os.environ | variables, capture_output=True, text=True, check=False
            )

            assert ended.returncode == 2
            assert ended.stderr == (
                f"PORT={port} at 127.0.0.1 cannot be used: Address already in use."
                " Stop the program that has it, or choose another PORT.\n"
            )
