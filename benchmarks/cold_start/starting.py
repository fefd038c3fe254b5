"""Starting deployables from nothing, again and again, with compiled bytecode and without."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.measuring.processes import family
from infra.local.configuration.addresses import Addresses
from infra.local.configuration.environments import (
    FIRESTORE_VARIABLE,
    PUBSUB_VARIABLE,
    deployable_environments,
)
from infra.local.configuration.keys import make_key
from infra.local.configuration.options import ROOT, CloudOptions
from infra.local.configuration.ports import Ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

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
        cpu_milliseconds: processor time of its processes until then.
    """

    milliseconds: float
    cpu_milliseconds: float


class Starter:
    """Starts deployables as the local cloud does, but without any service they could speak to.

    Args:
        folder: for the key and the bytecode.
        has_bytecode: whether everything was compiled before, as in the container's image.
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
            [sys.executable, "-m", "benchmarks.cold_start.start_parts", *arguments],
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
