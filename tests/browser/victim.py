"""A second process of the service `live`, which a test kills at the step that it names."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import psutil

from infra.local.configuration.names import Ports
from tests.browser.endpoints import ROOT
from tests.robustness.faults.barriers import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Route

    from tests.browser.endpoints import Endpoints

READY_SECONDS = 60.0


@dataclass
class Victim:
    """The process.

    Attributes:
        dies_at: the point of `tests.robustness.faults.collaborators` at which it is killed.
    """

    process: subprocess.Popen[bytes]
    url: str
    dies_at: str = ""
    died: threading.Event = field(default_factory=threading.Event)

    def kill(self) -> None:
        """Kill it; it can do nothing more."""
        self.process.kill()
        self.process.wait()
        self.died.set()

    def offer(self, route: Route) -> None:
        """Answer a request for a voice as the api does, but offer this process."""
        response = route.fetch()
        told = response.json()
        told["live"]["url"] = self.url
        route.fulfill(response=response, json=told)

    def judge(self, listening: socket.socket) -> None:
        """Let the process pass every point but the one at which it is killed."""
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, connection.makefile("rwb") as lines:
                    arrival = lines.readline()
                    if not arrival:
                        # The test killed the process before it named the point.
                        return
                    _, point, _, _ = json.loads(arrival)
                    if point == self.dies_at:
                        self.kill()
                        return
                    lines.write(b"go\n")


@contextmanager
def running_victim(cloud: Endpoints, log: Path) -> Iterator[Victim]:
    """Start the process beside the `live` of a local cloud, with the same surroundings."""
    with (
        Ports() as ports,
        socket.create_server(("127.0.0.1", 0)) as listening,
        log.open("wb") as output,
    ):
        (port,) = ports.free(1)
        judge = f"127.0.0.1:{listening.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.robustness.faults.live_with_barriers"],
            cwd=ROOT,
            env=_surroundings(cloud) | {"PORT": str(port), VARIABLE: judge},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        victim = Victim(process, f"ws://127.0.0.1:{port}/live")
        threading.Thread(target=victim.judge, args=[listening], daemon=True).start()
        try:
            _wait(process, f"http://127.0.0.1:{port}/readyz")
            yield victim
        finally:
            victim.kill()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def _surroundings(cloud: Endpoints) -> dict[str, str]:
    """Return the environment of the cloud's own `live`."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if "functions.live_and_compat" in process.cmdline():
                found = process.environ()
                if cloud.api in found["ALLOWED_ORIGINS"].split(","):
                    return found
    raise RuntimeError("the local cloud has no process of the service live")


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(httpx.TransportError):
            if httpx.get(url).is_success:
                return
        time.sleep(0.05)
    raise RuntimeError("the second process of live did not start")
