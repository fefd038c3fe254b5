"""Measures the start of a new instance, and how long a visitor waits for it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from importlib.metadata import packages_distributions
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil

from infra.local.commands.visitor import RecordingRequest
from infra.local.configuration.environments import (
    FIRESTORE_VARIABLE,
    PUBSUB_VARIABLE,
    Addresses,
    deployable_environments,
)
from infra.local.configuration.keys import make_key
from infra.local.configuration.names import Ports
from infra.local.configuration.options import ROOT, CloudOptions, Scaling
from tools.benchmarks.recordings import CONTENT_TYPE, webm
from tools.benchmarks.report import Cell, Report, Table
from tools.benchmarks.servers import NOWHERE, family
from tools.benchmarks.voice_journeys import LISTENING_SECONDS, Visitors, visited_cloud

STOP_SECONDS: Final = 20.0
NEVER_IDLE: Final = Scaling(idle_seconds=3600.0)  # the benchmark ends instances, not the clock


class InstanceState(StrEnum):
    COLD = "scaled to zero, no warm-up"
    WARMING_UP = "scaled to zero, warm-up as the recording begins"
    WARM = "minimum instance"


class Visit(NamedTuple):
    """Milliseconds from the end of a recording to `done`, and those of the conversion in them."""

    wait: float
    conversion: float


class ScaledCloud:
    """A local cloud with a proxy before its converter, and a visitor."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors
        self._convert = visitors.cloud.addresses.convert
        self._proxy = psutil.Process(visitors.cloud.pids["convert"])

    async def visit(self, state: InstanceState, recording: bytes, seconds: float) -> Visit:
        """Speak for so many seconds and wait for the character; WARM needs an earlier visit."""
        visitors, visitor = self._visitors, self._visitors.visitor
        if state is InstanceState.WARMING_UP:
            await self._scale_to_zero()
        # With this the api sends the warm-up.
        created = await visitor.create(RecordingRequest(), CONTENT_TYPE)
        if state is InstanceState.COLD:
            await self._warm_up()
            await self._scale_to_zero()
        watching = asyncio.create_task(visitor.watch(created["voice_id"], lambda _voice: None))
        # Nothing starts while the visitor of a cold instance speaks: a moment is enough.
        await visitors.speak(LISTENING_SECONDS if state is InstanceState.COLD else seconds)
        begin = time.perf_counter()
        await visitor.upload(created, recording)
        voice = await watching
        return Visit((time.perf_counter() - begin) * 1000, sum(voice.timings.values()))

    async def _scale_to_zero(self) -> None:
        children = self._proxy.children()
        for child in children:
            child.terminate()
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, STOP_SECONDS)
        if alive:
            raise RuntimeError("the conversion container did not stop")

    async def _warm_up(self) -> None:
        address = f"{self._convert}/warmup"
        (await self._visitors.client.get(address, timeout=STOP_SECONDS)).raise_for_status()


def bytecode_environment(folder: Path, *, is_written: bool) -> dict[str, str]:
    """Return the variables of processes that keep bytecode in a folder alone."""
    # Python takes an empty variable as not set.
    unwritten = "" if is_written else "1"
    return {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": unwritten}


@asynccontextmanager
async def scaled_cloud() -> AsyncIterator[ScaledCloud]:
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as folder:
        # As in the container's image, everything is compiled; the first start does that.
        compiled = bytecode_environment(Path(folder), is_written=True)
        async with visited_cloud(scaling=NEVER_IDLE, environment=compiled) as visitors:
            yield ScaledCloud(visitors)


Waits = dict[tuple[float, InstanceState], list[Visit]]

DEPLOYABLES: Final = ("api", "on_upload", "convert", "dead_letter", "sweep")
COMPILED: Final = "with bytecode"
NOT_COMPILED: Final = "without"
WITHOUT_KOKORO: Final = "with bytecode, Kokoro off"
SPOKEN_SECONDS: Final = 3.0  # the recording that the target of the wait is about


class ColdStartPlan(NamedTuple):
    """Numbers of whole starts, of their parts and of imports; of visits, by seconds."""

    starts: Mapping[str, tuple[int, int, int]]
    visits: Mapping[float, int]


FULL: Final = ColdStartPlan(
    {COMPILED: (9, 9, 5), NOT_COMPILED: (3, 1, 1), WITHOUT_KOKORO: (9, 3, 0)},
    {1.0: 5, 3.0: 25, 5.0: 5, 10.0: 3},
)
QUICK: Final = ColdStartPlan(
    {COMPILED: (2, 1, 1), NOT_COMPILED: (0, 0, 0), WITHOUT_KOKORO: (1, 1, 0)}, {1.0: 1, 3.0: 1}
)


class Starts(NamedTuple):
    """Starts with bytecode and without, in milliseconds.

    `parts` and `imports` are medians; `yardsticks` are imports of NumPy.
    """

    whole: Mapping[str, Sequence[Start]]
    parts: Mapping[str, Mapping[str, float]]
    imports: Mapping[str, Mapping[str, Mapping[str, float]]]
    yardsticks: Sequence[float]


async def run(*, quick: bool) -> Report:
    plan = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as name:
        starts = measure_starts(Path(name), plan)
    waits = await measure_waits(plan)
    compiled = starts.whole[COMPILED]
    ready = median(start.milliseconds for start in compiled)
    warm_up, warm = (
        _median_wait(waits, state) for state in (InstanceState.WARMING_UP, InstanceState.WARM)
    )
    cpu = median(start.cpu_milliseconds for start in compiled)
    return Report(
        "cold-start",
        (
            _starts_table(starts.whole),
            _parts_table(starts.parts),
            _imports_table(starts.imports),
            _waits_table(waits),
        ),
        facts={
            "container ready after exec with bytecode (ms, at most 1500 is wanted)": ready,
            "wait after 3 s with warm-up, by that with a minimum instance (at most 1.15)": (
                warm_up / warm
            ),
        },
        ratios={
            "processor time of a converter's start, by that of importing NumPy": (
                cpu / median(starts.yardsticks)
            )
        },
    )


def measure_starts(folder: Path, plan: ColdStartPlan) -> Starts:
    compiled = Starter(folder / "compiled", has_bytecode=True)
    silent = Starter(folder / "without-kokoro", has_bytecode=True, KOKORO="off")
    # Compiles every module that one of the measured processes imports.
    for starter in (compiled, silent):
        starter.start_converter()
    for name in DEPLOYABLES:
        compiled.measure_imports(name)
    starters = {
        COMPILED: compiled,
        NOT_COMPILED: Starter(folder / "not-compiled", has_bytecode=False),
        WITHOUT_KOKORO: silent,
    }
    recording = webm(SPOKEN_SECONDS)
    whole: dict[str, list[Start]] = defaultdict(list)
    parts: dict[str, list[dict[str, float]]] = defaultdict(list)
    imports: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    yardsticks = []
    for turn in range(plan.starts[COMPILED][0]):
        yardsticks.append(compiled.measure_yardstick())
        for kind, starter in starters.items():
            whole_starts, part_starts, import_starts = plan.starts[kind]
            if turn < whole_starts:
                whole[kind].append(starter.start_converter())
            if turn < part_starts:
                parts[kind].append(starter.measure_parts(recording))
            for name in DEPLOYABLES if turn < import_starts else ():
                imports[kind, name].append(starter.measure_imports(name))
    return Starts(
        whole,
        {kind: medians(each) for kind, each in parts.items()},
        {kind: {name: medians(imports[kind, name]) for name in DEPLOYABLES} for kind in starters},
        yardsticks,
    )


async def measure_waits(plan: ColdStartPlan) -> Waits:
    waits: Waits = defaultdict(list)
    recordings = {seconds: webm(seconds) for seconds in plan.visits}
    async with scaled_cloud() as cloud:
        # The emulators need seconds for their first requests.
        await cloud.visit(InstanceState.WARM, recordings[min(recordings)], 0)
        for turn in range(max(plan.visits.values())):
            for seconds in (each for each, count in plan.visits.items() if turn < count):
                # WARM is the last state: it finds the instance of the visit before.
                for state in InstanceState:
                    visit = await cloud.visit(state, recordings[seconds], seconds)
                    waits[seconds, state].append(visit)
    return waits


def _median_wait(waits: Waits, state: InstanceState, seconds: float = SPOKEN_SECONDS) -> float:
    return median(visit.wait for visit in waits[seconds, state])


def _starts_table(whole: Mapping[str, Sequence[Start]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for kind, starts in whole.items():
        times = [start.milliseconds for start in starts]
        cpu = median(start.cpu_milliseconds for start in starts)
        memory = median(start.megabytes for start in starts)
        rows.append((kind, median(times), min(times), max(times), cpu, memory, len(times)))
    columns = ("bytecode", "median", "least", "most", "processor time", "memory (MB)", "starts")
    title = "A conversion container from exec to its first ready answer, ms"
    return Table(title, columns, tuple(rows))


def _parts_table(parts: Mapping[str, Mapping[str, float]]) -> Table:
    kinds = (COMPILED, NOT_COMPILED, WITHOUT_KOKORO)
    rows = tuple(
        (name, *(parts.get(kind, {}).get(name) for kind in kinds)) for name in parts[COMPILED]
    )
    title = "The parts of a start, one after another, and the first conversions (3 s), ms"
    return Table(title, ("part", *kinds), rows)


def _imports_table(imports: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in DEPLOYABLES:
        compiled, not_compiled = imports[COMPILED][name], imports[NOT_COMPILED][name]
        slowly = not_compiled["imports"] + not_compiled["clients"] if not_compiled else None
        parts = compiled["imports"], compiled["clients"]
        rows.append((name, round(compiled["modules"]), *parts, sum(parts), slowly))
    columns = ("deployable", "modules", "import", "clients", "together", "without bytecode")
    return Table("What each deployable imports and opens, ms", columns, tuple(rows))


def _waits_table(waits: Waits) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for (seconds, state), visits in waits.items():
        times = [visit.wait for visit in visits]
        conversion = median(visit.conversion for visit in visits)
        to_warm = median(times) / _median_wait(waits, InstanceState.WARM, seconds)
        rows.append((seconds, state, median(times), min(times), max(times), conversion, to_warm))
    columns = ("spoken (s)", "instance", "median", "least", "most", "conversion", "to minimum")
    title = "From the end of the recording to done at the visitor's listener, ms"
    return Table(title, columns, tuple(rows))


READY_SECONDS: Final = 60.0
_PROBE_PAUSE_SECONDS: Final = 0.003
_PROBE: Final = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_READY: Final = b" 204"


class Start(NamedTuple):
    """One start of the conversion container, from exec to the first success of `/readyz`.

    `megabytes` are those that it then has, with its child; what they share counts once.
    """

    milliseconds: float
    cpu_milliseconds: float
    megabytes: float


class Starter:
    """Starts deployables as the local cloud does, without any server for their clients.

    Args:
        folder: for the key and the bytecode; it is made.
    """

    def __init__(self, folder: Path, *, has_bytecode: bool, **variables: str) -> None:
        folder.mkdir()
        key = folder / "signing-key.json"
        make_key().write(key)
        url = f"http://{NOWHERE}"
        addresses = Addresses(url, url, url, url, url, url)
        environments = deployable_environments(CloudOptions(), addresses, key)
        # The local cloud has no sweep of its own, whose settings are those of both.
        self._environments = environments | {
            "sweep": environments["dead_letter"] | environments["on_upload"]
        }
        self._common = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            **bytecode_environment(folder / "bytecode", is_written=has_bytecode),
            "STORAGE_EMULATOR_HOST": url,
            FIRESTORE_VARIABLE: NOWHERE,
            PUBSUB_VARIABLE: NOWHERE,
            # As where they are deployed.
            "PYDANTIC_DISABLE_PLUGINS": "__all__",
            **variables,
        }

    def start_converter(self) -> Start:
        with Ports() as ports:
            (port,) = ports.free(1)
            environment = self._environment("convert") | {"PORT": str(port)}
            began = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-m", "functions.convert"],
                env=environment,
                stdout=subprocess.DEVNULL,
            )
            try:
                _wait_until_ready(process, port)
                elapsed = time.monotonic() - began
                processes = family(process.pid)
                times = [each.cpu_times() for each in processes]
                return Start(
                    elapsed * 1000,
                    sum(each.user + each.system for each in times) * 1000,
                    sum(each.memory_full_info().pss for each in processes) / 1e6,
                )
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()

    def measure_parts(self, recording: bytes) -> dict[str, float]:
        return self._measure("convert", "converter", str(time.monotonic()), recording=recording)

    def measure_imports(self, deployable: str) -> dict[str, float]:
        """Return the milliseconds of a deployable's imports and clients, and its modules.

        Packages that are not deployed with it cannot be imported, because some libraries import
        others wherever they are installed.
        """
        return self._measure(deployable, deployable, *missing_packages(deployable))

    def measure_yardstick(self) -> float:
        """Return the milliseconds of CPU time that a new process needs to import NumPy."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", "import numpy"]
        subprocess.run(command, env=self._environment("convert"), check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)

    def _measure(
        self, deployable: str, *arguments: str, recording: bytes = b""
    ) -> dict[str, float]:
        finished = subprocess.run(
            [sys.executable, "-m", "tools.benchmarks.start_parts", *arguments],
            env=self._environment(deployable),
            input=recording,
            stdout=subprocess.PIPE,
            check=True,
        )
        found: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
        return found

    def _environment(self, deployable: str) -> dict[str, str]:
        return {**self._common, **self._environments[deployable]}


def missing_packages(deployable: str) -> list[str]:
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


def medians(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = measured[0] if measured else ()
    return {name: median(one[name] for one in measured) for name in names}


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)) as connection:
            connection.settimeout(READY_SECONDS)
            connection.sendall(_PROBE)
            if _READY in connection.recv(64):
                return
        time.sleep(_PROBE_PAUSE_SECONDS)
    raise RuntimeError("the conversion container did not become ready")
