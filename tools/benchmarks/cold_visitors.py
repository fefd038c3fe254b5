"""Visitors of a local cloud whose conversion container comes and goes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import packages_distributions
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import httpx
import psutil

from infra.local.cloud.start import local_cloud
from infra.local.commands.visitor import RecordingRequest, Visitor
from infra.local.configuration.environments import (
    FIRESTORE_VARIABLE,
    PUBSUB_VARIABLE,
    Addresses,
    deployable_environments,
)
from infra.local.configuration.keys import make_key
from infra.local.configuration.names import Ports
from infra.local.configuration.options import ROOT, CloudOptions, Scaling
from tools.benchmarks.recordings import CONTENT_TYPE
from tools.benchmarks.servers import family
from tools.benchmarks.voice_journeys import (
    CONNECTIONS,
    LISTENING_SECONDS,
    changed_environment,
    off_beat,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from infra.local.cloud.local_cloud import LocalCloud


NOWHERE: Final = "127.0.0.1:9"
"""Clients are opened, but nothing is asked of them."""

READY_SECONDS: Final = 60.0
_PROBE_PAUSE_SECONDS: Final = 0.003
_PROBE: Final = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_READY: Final = b" 204"


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the conversion container.

    Attributes:
        milliseconds: from exec to the first successful answer of `/readyz`.
    """

    milliseconds: float
    cpu_milliseconds: float


class Starter:
    """Starts deployables as the local cloud does, but without any service they could speak to.

    Args:
        folder: for the key and the bytecode.
    """

    def __init__(self, folder: Path, *, has_bytecode: bool) -> None:
        folder.mkdir()
        key = folder / "signing-key.json"
        make_key().write(key)
        url = f"http://{NOWHERE}"
        addresses = Addresses(url, url, url, url, url, url)
        environments = deployable_environments(CloudOptions(), addresses, key)
        # The local cloud has no scheduler and so no sweep; it is told the same as on_upload.
        self._environments = environments | {
            "sweep": environments["dead_letter"] | environments["on_upload"]
        }
        self._common = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            **bytecode_in(folder / "bytecode", is_written=has_bytecode),
            "STORAGE_EMULATOR_HOST": url,
            FIRESTORE_VARIABLE: NOWHERE,
            PUBSUB_VARIABLE: NOWHERE,
            # As where they are deployed.
            "PYDANTIC_DISABLE_PLUGINS": "__all__",
        }

    def start_converter(self) -> Start:
        """Start a conversion container and stop it as soon as it is ready."""
        with Ports() as ports:
            return self._start_converter_at(*ports.free(1))

    def _start_converter_at(self, port: int) -> Start:
        environment = self._environment("convert") | {"PORT": str(port)}
        began = time.monotonic()
        with _running([sys.executable, "-m", "functions.convert"], environment) as process:
            _wait_until_ready(process, port)
            elapsed = time.monotonic() - began
            return Start(elapsed * 1000, _cpu_seconds(process.pid) * 1000)

    def measure_parts(self, recording: bytes) -> dict[str, float]:
        """Return the milliseconds of each part of a converter's start; see `start_parts`."""
        arguments = ("converter", str(time.monotonic()))
        return self._run("convert", *arguments, standard_input=recording)

    def measure_imports(self, deployable: str) -> dict[str, float]:
        """Return milliseconds of a deployable's imports and clients, and how many modules.

        Only what it has where it is deployed can be imported: some libraries import others, such as
        httpx `rich`, wherever they are installed.
        """
        return self._run(deployable, deployable, *absent_packages(deployable))

    def measure_yardstick(self) -> float:
        """Return the processor time of importing NumPy in a new process, in milliseconds."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", "import numpy"]
        subprocess.run(command, env=self._environment("convert"), check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        return (user + system) * 1000

    def _run(
        self, deployable: str, *arguments: str, standard_input: bytes = b""
    ) -> dict[str, float]:
        finished = subprocess.run(
            [sys.executable, "-m", "tools.benchmarks.start_parts", *arguments],
            env=self._environment(deployable),
            input=standard_input,
            stdout=subprocess.PIPE,
            check=True,
        )
        found: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
        return found

    def _environment(self, deployable: str) -> dict[str, str]:
        return {**self._common, **self._environments[deployable]}


def absent_packages(deployable: str) -> list[str]:
    """Return the importable packages that are installed here, but not with a deployable."""
    lock = (ROOT / "functions" / deployable / "requirements.txt").read_text()
    locked = {_normal(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    return sorted(
        package
        for package, distributions in packages_distributions().items()
        if locked.isdisjoint(map(_normal, distributions))
    )


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def bytecode_in(folder: Path, *, is_written: bool) -> dict[str, str]:
    """Return the environment of processes that look for bytecode in a folder, and there only."""
    # Empty counts as not set.
    unwritten = "" if is_written else "1"
    return {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": unwritten}


def medians(measured: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure of several measurements."""
    together: dict[str, list[float]] = {}
    for one in measured:
        for name, value in one.items():
            together.setdefault(name, []).append(value)
    return {name: median(values) for name, values in together.items()}


@contextmanager
def _running(
    command: list[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _is_ready(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the conversion container did not get ready")
        time.sleep(_PROBE_PAUSE_SECONDS)


def _is_ready(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), READY_SECONDS) as connection:
            connection.sendall(_PROBE)
            return _READY in connection.recv(64)
    except ConnectionError:
        return False


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and those it has started."""
    times = [each.cpu_times() for each in family(pid)]
    return sum(each.user + each.system for each in times)


STOP_SECONDS: Final = 20.0
NEVER_IDLE: Final = Scaling(idle_seconds=3600.0)
"""When an instance ends is up to the benchmark, not to the clock."""


class InstanceState(StrEnum):
    """How the visitor finds the conversion container."""

    COLD = "scaled to zero, no warm-up"
    WARMING_UP = "scaled to zero, warm-up as the recording begins"
    WARM = "minimum instance"


@dataclass(frozen=True, slots=True)
class Visit:
    """One visitor's experience, in milliseconds.

    Attributes:
        wait: from the end of the recording until the listener said `done`.
    """

    wait: float
    conversion: float


class ScaledCloud:
    """A local cloud with a proxy in front of its converter, and a visitor."""

    def __init__(self, cloud: LocalCloud, client: httpx.AsyncClient) -> None:
        self.cloud = cloud
        self.client = client
        self.visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        self._convert = cloud.addresses.convert
        self._proxy = psutil.Process(cloud.pids["convert"])
        self._chance = random.Random(0)

    async def visit(
        self,
        state: InstanceState,
        recording: bytes,
        seconds: float,
        spoken: Callable[[], None] = lambda: None,
    ) -> Visit:
        """Speak for so long and wait for the character; WARM needs an earlier visit."""
        if state is InstanceState.WARMING_UP:
            await self.scale_to_zero()
        # The api sends the warm-up with this.
        created = await self.visitor.create(RecordingRequest(), CONTENT_TYPE)
        if state is InstanceState.COLD:
            await self._warm_up()
            await self.scale_to_zero()
        watching = asyncio.create_task(self.visitor.watch(created["voice_id"], lambda _voice: None))
        # Where nothing is under way meanwhile, how long the visitor speaks changes nothing.
        is_waiting = state is InstanceState.COLD
        speaking = LISTENING_SECONDS if is_waiting else seconds
        await asyncio.sleep(speaking + off_beat(self._chance))
        spoken()
        begin = time.perf_counter()
        await self.visitor.upload(created, recording)
        voice = await watching
        wait = (time.perf_counter() - begin) * 1000
        return Visit(wait, sum(voice.timings.values()))

    async def scale_to_zero(self) -> None:
        """Stop the instance, if there is one, and wait for its end."""
        children = self._proxy.children()
        for child in children:
            child.terminate()
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, STOP_SECONDS)
        if alive:
            raise RuntimeError("the conversion container did not stop")

    async def start(self) -> float:
        """Start an instance as a warm-up does; return the seconds until it can convert."""
        await self.scale_to_zero()
        begin = time.perf_counter()
        await self._warm_up()
        return time.perf_counter() - begin

    async def _warm_up(self) -> None:
        response = await self.client.get(f"{self._convert}/warmup", timeout=STOP_SECONDS)
        response.raise_for_status()


@asynccontextmanager
async def scaled_cloud() -> AsyncIterator[ScaledCloud]:
    """Start a local cloud whose converter scales to zero, and stop it at the end."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="voice-avatar-")))
        # As in the container's image, everything is compiled; the first start does that.
        compiled = bytecode_in(folder / "bytecode", is_written=True)
        stack.enter_context(changed_environment(compiled))
        options = CloudOptions(folder=folder, scaling=NEVER_IDLE)
        cloud = await stack.enter_async_context(local_cloud(options, note=print))
        client = await stack.enter_async_context(httpx.AsyncClient(limits=CONNECTIONS))
        yield ScaledCloud(cloud, client)
