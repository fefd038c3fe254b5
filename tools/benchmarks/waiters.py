"""Clients that wait in `GET /api/v1/conversion/{voice_id}`, on one process of the api."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import numpy as np
import psutil

from infra.local.cloud.local_cloud import find_emulators
from infra.local.configuration import names
from infra.local.configuration.environments import (
    FIRESTORE_VARIABLE,
    Addresses,
    deployable_environments,
)
from infra.local.configuration.keys import make_key
from infra.local.configuration.options import ROOT, RULES, CloudOptions
from infra.local.processes.children import Supervisor
from shared.google.voices import FirestoreVoices
from tools.benchmarks.report import Report, Table
from tools.benchmarks.waiters_visitors import (
    WaitingCrowd,
    finish,
    leave,
    warm_up_target,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from shared.google.firestore import RenewableClient
    from shared.voices.store import VoiceStore
    from tools.benchmarks.report import BenchmarkOptions, Cell
    from tools.benchmarks.waiters_visitors import WaitingVisitor

MB: Final = 1_000_000
NOWHERE: Final = "http://127.0.0.1:9"
FIRST_ARRIVAL_SECONDS: Final = 15.0
NEXT_ARRIVAL_SECONDS: Final = 0.01
"""How long the first client, and each other one, may take until it waits."""

GROUP: Final = 50
"""How many clients come at once."""

COUNTS_PAUSE_SECONDS: Final = 0.05
COUNTS_SECONDS: Final = 120.0
"""How long a process that is busy with its clients may take to tell its counts."""

ANSWER_SECONDS: Final = 10.0
"""How long a client may wait for the answer after its voice is done."""


@dataclass(frozen=True, slots=True)
class WaitersExtent:
    """What is measured.

    Attributes:
        rate: how many of them per second, at random times.
    """

    crowds: tuple[int, ...] = (100, 500, 1000, 5000)
    changes: int = 300
    rate: float = 25.0


QUICK: Final = WaitersExtent(crowds=(100,), changes=100)
WARM_UP: Final = WaitersExtent(crowds=(50,), changes=150, rate=50.0)
PERCENTILES: Final = (50, 95, 99)

Answer = float | str
"""Milliseconds from a document's change to the whole answer, or what came instead of it."""


@dataclass(frozen=True, slots=True)
class WaitersFigures:
    """The measurement with one number of clients.

    Attributes:
        arrival_cpu: milliseconds of the processor that the process spent on the arrival of each.
        streams: `Listen` streams of the process while all wait.
        memory: its resident memory then, in megabytes.
        growth: its growth from the memory without clients, in megabytes.
    """

    clients: int
    waiting: int
    arrival_seconds: float
    arrival_cpu: float
    streams: int
    threads: int
    threads_before: int
    memory: float
    growth: float
    answers: Sequence[Answer]
    breaks: int

    @property
    def has_fallen(self) -> bool:
        """Whether it failed; then more clients are not tried."""
        return self.waiting < self.clients or bool(self.complaints)

    @property
    def complaints(self) -> str:
        """The errors that came instead of answers, if any."""
        counted = Counter(each for each in self.answers if isinstance(each, str))
        return ", ".join(f"{count} x {text}" for text, count in counted.items())

    def lag(self, percentile: int) -> float | None:
        """Return a percentile of the lags, in milliseconds; None if nobody got an answer."""
        lags = [each for each in self.answers if isinstance(each, float)]
        return float(np.percentile(lags, percentile)) if lags else None

    def row(self) -> tuple[Cell, ...]:
        """Return it as a row of `COLUMNS`."""
        return (
            self.clients,
            self.waiting,
            self.arrival_cpu,
            self.streams,
            self.threads,
            self.memory,
            self.growth,
            *map(self.lag, PERCENTILES),
            sum(isinstance(each, str) for each in self.answers),
            self.breaks,
        )


COLUMNS: Final = (
    "clients",
    "of them waiting",
    "CPU per arrival (ms)",
    "streams",
    "threads",
    "memory (MB)",
    "growth (MB)",
    *(f"lag p{percentile} (ms)" for percentile in PERCENTILES),
    "unanswered",
    "broken streams",
)


async def run(options: BenchmarkOptions) -> Report:
    """Measure every number of clients, until one is too many."""
    raise_file_limit()
    plan = QUICK if options.quick else WaitersExtent()
    measured: list[WaitersFigures] = []
    async with firestore_emulator() as address:
        # Java gets faster while it runs: not at the cost of whoever comes first.
        await measure(WARM_UP.crowds[0], WARM_UP, address)
        for clients in plan.crowds:
            print(f"{clients} clients ...", file=sys.stderr, flush=True)
            measured.append(await measure(clients, plan, address))
            if measured[-1].has_fallen:
                break
    return report(measured, plan)


def report(measured: Sequence[WaitersFigures], plan: WaitersExtent) -> Report:
    """Make the report."""
    table = Table("Clients waiting on one process", COLUMNS, tuple(each.row() for each in measured))
    facts: dict[str, Cell] = {
        "voices done while the others wait": plan.changes,
        "of them per second": plan.rate,
    }
    for each in measured:
        facts[f"seconds until all wait ({each.clients} clients)"] = each.arrival_seconds
        if each.has_fallen:
            facts[f"too much ({each.clients} clients)"] = "yes, so no more clients were tried"
        if each.complaints:
            facts[f"instead of answers ({each.clients} clients)"] = each.complaints
    return Report("waiters", (table,), facts, ratios(measured))


def ratios(measured: Sequence[WaitersFigures]) -> dict[str, float]:
    """Divide the need of the fewest clients by that of the process with one client.

    Raises:
        RuntimeError: even so few did not wait, so the needs are not those of clients that wait.
    """
    fewest = min(measured, key=lambda each: each.clients)
    if fewest.has_fallen:
        raise RuntimeError(
            f"{fewest.clients} clients were too many: {fewest.waiting} of them waited,"
            f" errors: {fewest.complaints or 'none'}"
        )
    return {
        "streams per client": fewest.streams / fewest.clients,
        "threads beside those with one client": fewest.threads / fewest.threads_before,
        "memory growth by the memory with one client": (
            fewest.growth / (fewest.memory - fewest.growth)
        ),
    }


def raise_file_limit() -> None:
    """Let this process and those it starts open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@asynccontextmanager
async def firestore_emulator() -> AsyncIterator[str]:
    """Start Google's emulator and yield its address.

    Raises:
        EmulatorsMissingError: it is not there.
    """
    emulators = find_emulators()
    with tempfile.TemporaryDirectory() as logs:
        supervisor = Supervisor(Path(logs))
        (port,) = supervisor.ports.free(1)
        command = emulators.firestore_command(port, RULES)
        try:
            process = await supervisor.start("firestore", command, os.environ)
            await supervisor.wait_until_ready(process, f"http://127.0.0.1:{port}/")
            yield f"127.0.0.1:{port}"
        finally:
            await supervisor.stop_all()


async def measure(clients: int, plan: WaitersExtent, firestore: str) -> WaitersFigures:
    """Let a crowd wait on a new process, and change documents meanwhile."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(firestore))
        client = open_client(firestore)
        stack.callback(client.close)
        crowd = WaitingCrowd(server.port, client)
        voices = FirestoreVoices(client)
        await answered(voices, await crowd.arrive(1))
        before, started = server.memory(), time.perf_counter()
        threads_before = server.worker.num_threads()
        spent = server.cpu_seconds()
        visitors: list[WaitingVisitor] = []
        stack.push_async_callback(leave, visitors)
        arrived = await arrive(visitors, crowd, server, clients)
        arrival_seconds = time.perf_counter() - started
        spent = server.cpu_seconds() - spent
        memory, threads = server.memory(), server.worker.num_threads()
        streams = (await server.counts())["streams"]
        answers = await finish_some(voices, crowd, visitors, plan)
        return WaitersFigures(
            clients=clients,
            waiting=arrived,
            arrival_seconds=arrival_seconds,
            arrival_cpu=1000 * spent / max(arrived, 1),
            streams=streams,
            threads=threads,
            threads_before=threads_before,
            memory=memory / MB,
            growth=(memory - before) / MB,
            answers=answers,
            breaks=server.broken_streams(),
        )


async def arrive(
    visitors: list[WaitingVisitor], crowd: WaitingCrowd, server: ApiProcess, clients: int
) -> int:
    """Let clients arrive in groups, each when the one before waits; return how many got to wait."""
    patience = FIRST_ARRIVAL_SECONDS + NEXT_ARRIVAL_SECONDS * clients
    deadline = time.perf_counter() + patience
    while True:
        visitors += await crowd.arrive(min(GROUP, clients - len(visitors)))
        waiting = await server.until_waiting(len(visitors), deadline)
        if waiting < len(visitors) or len(visitors) == clients:
            return waiting


async def finish_some(
    voices: VoiceStore, crowd: WaitingCrowd, visitors: list[WaitingVisitor], plan: WaitersExtent
) -> list[Answer]:
    """Finish voices at random times and return the answers; as one client leaves, another comes."""
    loop, arrivals = asyncio.get_running_loop(), random.Random(1)
    answers: list[asyncio.Task[Answer]] = []
    comings: list[asyncio.Task[list[WaitingVisitor]]] = []
    due = loop.time()
    for _ in range(plan.changes):
        due += arrivals.expovariate(plan.rate)
        await asyncio.sleep(due - loop.time())
        if not visitors:  # on a busy machine, all that wait can leave before another one comes
            pending = [coming for coming in comings if not coming.done()]
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        visitor = visitors.pop(arrivals.randrange(len(visitors)))
        answers.append(asyncio.create_task(answered(voices, [visitor])))
        comings.append(asyncio.create_task(crowd.arrive(1)))
        comings[-1].add_done_callback(lambda coming: visitors.extend(coming.result()))
    await asyncio.gather(*comings)
    return await asyncio.gather(*answers)


async def answered(voices: VoiceStore, visitors: Sequence[WaitingVisitor]) -> Answer:
    """Finish the voice of a visitor and return the answer."""
    (visitor,) = visitors
    changed = await finish(voices, visitor.snapshot)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            status, arrived = await visitor.answer
    except TimeoutError:
        return f"nothing for {ANSWER_SECONDS:.0f} s"
    except OSError as error:
        return f"a broken connection: {error.strerror}"
    return 1000 * (arrived - changed) if " 200 " in status else status


def open_client(firestore: str) -> RenewableClient:
    """Open a client of the emulator."""
    from shared.google.firestore import RenewableClient  # noqa: PLC0415 - reads the variable

    os.environ[FIRESTORE_VARIABLE] = firestore
    return RenewableClient(project=names.PROJECT_ID)


class ApiProcess:
    """One running process of the api."""

    def __init__(
        self, port: int, http: httpx.AsyncClient, worker: psutil.Process, log: Path
    ) -> None:
        self.port = port
        self.worker = worker
        self._http = http
        self._log = log

    def broken_streams(self) -> int:
        """Count the streams that it had to open again."""
        return self._log.read_text().count('"listen_stream_broken"')

    async def counts(self) -> dict[str, int]:
        """Read its counters."""
        response = await self._http.get(f"http://127.0.0.1:{self.port}/counts")
        counts: dict[str, int] = response.raise_for_status().json()
        return counts

    def memory(self) -> int:
        """Return its resident memory, in bytes."""
        return int(self.worker.memory_info().rss)

    async def until_waiting(self, clients: int, deadline: float) -> int:
        """Count the waiting clients, once all of them wait or at the deadline."""
        while True:
            waiting = (await self.counts())["waiting"]
            if waiting >= clients or time.perf_counter() > deadline:
                return waiting
            await asyncio.sleep(COUNTS_PAUSE_SECONDS)

    def cpu_seconds(self) -> float:
        """Return its processor time."""
        times: Any = self.worker.cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def serving(firestore: str) -> AsyncIterator[ApiProcess]:
    """Serve the api as Cloud Functions' own image does."""
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_key().write(scratch / "key.json")
        convert = await stack.enter_async_context(warm_up_target())
        environment = api_environment(convert, firestore, scratch / "key.json")
        supervisor = Supervisor(scratch / "logs")
        (port,) = supervisor.ports.free(1)
        stack.push_async_callback(supervisor.stop_all)
        process = await supervisor.start("api", server_command(port), environment)
        await supervisor.wait_until_ready(process, f"http://127.0.0.1:{port}/healthz")
        # A busy process may close a kept connection just when the next request comes.
        limits = httpx.Limits(max_keepalive_connections=0)
        client = httpx.AsyncClient(timeout=COUNTS_SECONDS, limits=limits)
        http = await stack.enter_async_context(client)
        pid = (await http.get(f"http://127.0.0.1:{port}/counts")).json()["pid"]
        yield ApiProcess(port, http, psutil.Process(pid), process.log)


def api_environment(convert: str, firestore: str, key_file: Path) -> dict[str, str]:
    """Return the api's settings in the local cloud, with more patience."""
    options = CloudOptions(wait_seconds=3600)
    addresses = Addresses(
        api=NOWHERE,
        on_upload=NOWHERE,
        convert=convert,
        dead_letter=NOWHERE,
        sweep=NOWHERE,
        storage=NOWHERE,
        firestore=firestore,
    )
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "STORAGE_EMULATOR_HOST": NOWHERE,
        FIRESTORE_VARIABLE: firestore,
        **deployable_environments(options, addresses, key_file)["api"],
        # Each client comes from an address of its own, which a proxy tells.
        "TRUSTED_PROXIES": "1",
    }


def server_command(port: int) -> list[str]:
    """Return the command that serves the api."""
    source = Path(__file__).with_name("waiters_api.py")
    return [
        *(sys.executable, "-m", "functions_framework", "--asgi", "--target=api"),
        f"--source={source}",
        "--host=127.0.0.1",
        f"--port={port}",
    ]
