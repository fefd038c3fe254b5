"""Servers as processes of their own, and what processor time they take."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import psutil

from infra.local.configuration.options import ROOT
from infra.local.processes.children import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence


def family(pid: int) -> Sequence[psutil.Process]:
    """Return a process and those that it has started and that still run."""
    first = psutil.Process(pid)
    return (first, *first.children(recursive=True))


def cpu_seconds(pid: int) -> float:
    """Sum up the processor time of a process and its children, also of children that have ended."""
    total = 0.0
    for process in family(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            own = times.user + times.system
            total += own + times.children_user + times.children_system
    return total


PORT: Final = "{port}"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """Sum up the processor time of its processes, those included that have ended."""
        return cpu_seconds(self.pid)

    def megabytes(self) -> float:
        """Return the memory of its processes; what they share counts once for all of them."""
        total = 0
        for process in family(self.pid):
            with suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().pss
        return total / 1e6


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module with this interpreter; PORT stands for the port."""
    return (sys.executable, "-m", module, *arguments)


@asynccontextmanager
async def running(
    command: Sequence[str], environment: Mapping[str, str], probe: str
) -> AsyncIterator[Server]:
    """Start a server, wait until it answers a probe, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as folder:
        supervisor = Supervisor(Path(folder))
        (port,) = supervisor.ports.free(1)
        url = f"http://127.0.0.1:{port}"
        try:
            process = await supervisor.start(
                "server",
                [word.replace(PORT, str(port)) for word in command],
                {
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    **{k: v.replace(PORT, str(port)) for k, v in environment.items()},
                },
            )
            await supervisor.wait_until_ready(process, url + probe)
            yield Server(url, process.pid)
        finally:
            await supervisor.stop_all()


_Result = TypeVar("_Result")

TOLERATED: Final = 0.05
"""The share of the processors that other programs may take."""

TRIES: Final = 3


async def undisturbed(
    server: Server, measure: Callable[[], Awaitable[_Result]]
) -> tuple[_Result, float]:
    """Measure, and measure again if other programs were busy meanwhile.

    Returns:
        What came of the least disturbed try, and the share of the processors, 0 to 1, that other
        programs took then.
    """
    best: tuple[_Result, float] | None = None
    for _ in range(TRIES):
        begin, busy, own = time.perf_counter(), _busy_seconds(), _own_seconds(server)
        result = await measure()
        others = (_busy_seconds() - busy) - (_own_seconds(server) - own)
        there = (time.perf_counter() - begin) * (psutil.cpu_count() or 1)
        share = max(0.0, others / there)
        if best is None or share < best[1]:
            best = result, share
        if share <= TOLERATED:
            break
    if best is None:
        raise AssertionError("there is at least one try")
    return best


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def _own_seconds(server: Server) -> float:
    return server.cpu_seconds() + time.process_time()
