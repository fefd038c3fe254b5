"""How many voices a machine converts, by processes and threads, and how long they wait."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import httpx

from benchmarks.measuring.load import SUCCESSES, apply_load
from benchmarks.measuring.recordings import webm
from benchmarks.measuring.report import Report, Table
from benchmarks.measuring.servers import PORT, python, running
from benchmarks.throughput.converter import envelope, environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from benchmarks.measuring.load import Load
    from benchmarks.measuring.report import Cell, Options
    from benchmarks.measuring.servers import Server

OWN: Final = python("benchmarks.throughput.converter")
WAITING: Final = 24
"""How many messages wait in a server that has too much to do: it is never idle then."""

OVERLOAD: Final = 1.4
"""By how much more than the bound arrives, to see at which rate the server ends it."""

RAMP_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Setup:
    """A way to run the converter.

    Attributes:
        name: for the tables.
        workers: processes.
        concurrency: conversions at once, in all processes together.
    """

    name: str
    workers: int = 1
    concurrency: int = 4

    def variables(self) -> dict[str, str]:
        """Return the settings."""
        return {
            "WORKERS": str(self.workers),
            "CONCURRENCY": str(self.concurrency),
            "BACKLOG": str(WAITING),
            "MAX_REQUESTS": "0",
            "PORT": PORT,
        }


SETUPS: Final = (
    Setup("one process, four conversions (the default)"),
    Setup("one process, three conversions", concurrency=3),
    Setup("one process, two conversions", concurrency=2),
    Setup("two processes: Gunicorn watches over Hypercorn", workers=2),
)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        setups: which.
        rounds: how often each setup is measured.
        singles: conversions one after the other.
        overload_seconds: under overload.
        calm_seconds: at half of the saturation.
        spoken_seconds: the length of the recording.
    """

    setups: Sequence[Setup]
    rounds: int
    singles: int
    overload_seconds: float
    calm_seconds: float
    spoken_seconds: float = 5.0


FULL: Final = Extent(SETUPS, rounds=3, singles=20, overload_seconds=6.0, calm_seconds=10.0)
QUICK: Final = Extent(
    (SETUPS[0], SETUPS[-1]), rounds=1, singles=3, overload_seconds=4.0, calm_seconds=3.0
)


@dataclass(slots=True)
class Found:
    """The measurements of a setup; one entry for each round or each conversion.

    Attributes:
        service: seconds of conversions one after the other.
        cpu: processor seconds of one conversion, one after the other.
        busy_cpu: the same under overload.
        saturation: conversions per second under overload.
        bound: conversions per second if all processors did nothing but convert; what the
            generator took is not the server's to use.
        busy_bound: the same at what a conversion takes when there is too much to do.
        calm: the answers at half of the saturation.
        megabytes: of all processes.
    """

    service: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    busy_cpu: list[float] = field(default_factory=list)
    saturation: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    busy_bound: list[float] = field(default_factory=list)
    calm: list[Load] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def share_of_bound(self) -> float:
        """Return saturation by bound, each pair measured within seconds, the median of rounds."""
        return _median_ratio(self.saturation, self.bound)

    def share_of_time(self) -> float:
        """Compute the share of the processors' time that goes into conversions, likewise."""
        return _median_ratio(self.saturation, self.busy_bound)

    def percentiles(self) -> tuple[float, float, float]:
        """Return p50, p95, p99 in milliseconds at half of the saturation, medians of rounds."""
        rounds = [load.percentiles() for load in self.calm]
        first, second, third = (median(values) for values in zip(*rounds, strict=True))
        return first, second, third


def _median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    pairs = zip(numerators, denominators, strict=True)
    return median(numerator / denominator for numerator, denominator in pairs)


async def run(options: Options) -> Report:
    """Measure every setup, alternately."""
    plan = QUICK if options.quick else FULL
    found = {setup.name: Found() for setup in plan.setups}
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as folder:
        recording, content = Path(folder) / "recording.webm", webm(plan.spoken_seconds)
        recording.write_bytes(content)
        for _ in range(plan.rounds):
            for setup in plan.setups:
                variables = {**environment(recording), **setup.variables()}
                await _measure(setup, variables, len(content), plan, found[setup.name])
    default = found[plan.setups[0].name]
    return Report(
        "throughput",
        (_saturation_table(found, plan), _latency_table(found)),
        facts={"cores": len(os.sched_getaffinity(0))},
        ratios={
            "bound / saturation": 1 / default.share_of_bound(),
            "wait at half of saturation, p50 / service time": default.percentiles()[0]
            / (1000 * median(default.service)),
        },
    )


async def _measure(
    setup: Setup, variables: Mapping[str, str], recording_bytes: int, plan: Extent, found: Found
) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(OWN, variables, "/readyz"))
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        timeout = httpx.Timeout(PATIENCE_SECONDS)
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=server.url, limits=limits, timeout=timeout)
        )

        async def send(_index: int) -> int:
            response = await client.post("/push", content=envelope(recording_bytes))
            return response.status_code

        # Every process converts once before it counts.
        await asyncio.gather(*(send(0) for _ in range(2 * setup.concurrency)))
        cpu = await _one_after_the_other(send, server, plan.singles, found)
        cores = len(os.sched_getaffinity(0))
        before = server.cpu_seconds()
        load = await apply_load(
            send, rate=OVERLOAD * cores / cpu, seconds=RAMP_SECONDS + plan.overload_seconds
        )
        saturation = load.rate(since=RAMP_SECONDS)
        converted = len(load.answers) - load.failures()
        found.busy_cpu.append((server.cpu_seconds() - before) / max(converted, 1))
        found.saturation.append(saturation)
        available = cores - load.generator_cpu / load.seconds
        found.bound.append(available / cpu)
        found.busy_bound.append(available / found.busy_cpu[-1])
        found.megabytes.append(server.megabytes())
        found.calm.append(await apply_load(send, rate=saturation / 2, seconds=plan.calm_seconds))


async def _one_after_the_other(
    send: Callable[[int], Awaitable[int]], server: Server, count: int, found: Found
) -> float:
    """Convert without anything else to do; return the processor seconds of one conversion."""
    before = server.cpu_seconds()
    for _ in range(count):
        begin = time.perf_counter()
        status = await send(0)
        if status not in SUCCESSES:
            raise RuntimeError(f"the converter answered {status} to a good recording")
        found.service.append(time.perf_counter() - begin)
    cpu = (server.cpu_seconds() - before) / count
    found.cpu.append(cpu)
    return cpu


def _saturation_table(found: dict[str, Found], plan: Extent) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            1000 * median(one.cpu),
            1000 * median(one.busy_cpu),
            median(one.saturation),
            median(one.bound),
            one.share_of_bound(),
            one.share_of_time(),
            median(one.megabytes),
        )
        for name, one in found.items()
    )
    columns = (
        "the converter as",
        "CPU ms of a conversion",
        "the same, saturated",
        "saturation, conversions/s",
        "bound",
        "saturation / bound",
        "processors busy",
        "memory, MB",
    )
    return Table(f"saturation with recordings of {plan.spoken_seconds:g} s", columns, rows)


def _latency_table(found: dict[str, Found]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, one in found.items():
        service = 1000 * median(one.service)
        p50, p95, p99 = one.percentiles()
        failures = sum(load.failures() for load in one.calm)
        rows.append((name, service, p50, p95, p99, p99 / service, failures))
    columns = (
        "the converter as",
        "service time, ms",
        "p50",
        "p95",
        "p99",
        "p99 / service time",
        "not converted",
    )
    return Table("latency at half of the saturation, from the intended start", columns, tuple(rows))
