"""Servers as processes of their own, and what processor time they take."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks.measuring.processes import cpu_seconds, family
from infra.local.configuration.options import ROOT
from infra.local.processes.processes import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

PORT: Final = "{port}"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    Attributes:
        url: its address.
        pid: its first process.
    """

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
    """Start a server, wait until it answers a probe, and stop it at the end.

    Args:
        command: what to run; every PORT in it becomes the port.
        environment: what it needs beside this process's own; PORT is replaced here, too.
        probe: the path to ask.
    """
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
