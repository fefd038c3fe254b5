"""Servers and emulators as processes, and their processor time."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import httpx
import psutil
from google.cloud.storage import Client
from google.oauth2.service_account import Credentials

from infra.local.cloud import provisioning
from infra.local.cloud.local_cloud import find_emulators
from infra.local.configuration import names
from infra.local.configuration.environments import STORAGE_VARIABLE
from infra.local.configuration.keys import make_key
from infra.local.configuration.options import ROOT, RULES
from infra.local.processes.children import Supervisor
from shared.google.storage import CloudStorageBucket, Signer

NOWHERE: Final = "127.0.0.1:9"  # an address where nothing listens


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its port on 127.0.0.1, its first process, and its log."""

    port: int
    pid: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def megabytes(self) -> float:
        total = 0
        for process in family(self.pid):
            with suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().pss
        return total / 1e6


def family(pid: int) -> Sequence[psutil.Process]:
    first = psutil.Process(pid)
    return (first, *first.children(recursive=True))


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its children, with the children that ended."""
    total = 0.0
    for process in family(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


@asynccontextmanager
async def running(
    command: Callable[[int], Sequence[str]], environment: Mapping[str, str], probe: str
) -> AsyncIterator[Server]:
    """Start a server at a free port, wait until it answers at a path, and stop it at the end.

    Its environment is this process's own, PORT, and the given variables.
    """
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as folder:
        supervisor = Supervisor(Path(folder))
        (port,) = supervisor.ports.free(1)
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "PORT": str(port), **environment}
        try:
            process = await supervisor.start("server", command(port), variables)
            await supervisor.wait_until_ready(process, f"http://127.0.0.1:{port}{probe}")
            yield Server(port, process.pid, process.log)
        finally:
            await supervisor.stop_all()


@asynccontextmanager
async def emulator(name: Literal["firestore", "pubsub"]) -> AsyncIterator[str]:
    """Start one of Google's emulators and yield its address, HOST:PORT."""
    found = find_emulators()

    def command(port: int) -> Sequence[str]:
        address = f"127.0.0.1:{port}"
        if name == "pubsub":
            return found.pubsub_command(address)
        return found.firestore_command(address, RULES)

    async with running(command, {}, "/") as server:
        yield f"127.0.0.1:{server.port}"


@asynccontextmanager
async def results_bucket() -> AsyncIterator[CloudStorageBucket]:
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as name:
        key = Path(name) / "key.json"
        make_key().write(key)

        def command(port: int) -> tuple[str, ...]:
            module = (sys.executable, "-m", "infra.local.cloud.storage_service")
            return (*module, str(port), str(Path(name) / "storage"), str(key), NOWHERE)

        listing = f"/storage/v1/b?project={names.PROJECT_ID}"
        async with running(command, {}, listing) as server, httpx.AsyncClient() as client:
            await provisioning.make_buckets(client, server.url, [])
            with changed_environment({STORAGE_VARIABLE: server.url}):
                signer = Signer(Credentials.from_service_account_file(str(key)))
                google = Client(project=names.PROJECT_ID)
                yield CloudStorageBucket(google, names.RESULTS_BUCKET, signer)


@contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
