"""The service as an operator starts it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from infra.local.configuration.names import Ports

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
START_SECONDS = 60


@contextmanager
def compat_process(**variables: str) -> Iterator[str]:
    """Start the service with the characters of the image; its address."""
    with Ports() as ports:
        port = ports.free(1)[0]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PORT": str(port), "WORKERS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "functions.compat"], env=environment | variables, cwd=ROOT
        )
        address = f"http://127.0.0.1:{port}"
        try:
            wait_for(address, process)
            yield address
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the service answers, whatever it answers."""
    for _ in range(START_SECONDS * 20):
        assert process.poll() is None, "the service has ended"
        with suppress(httpx.TransportError):
            httpx.get(f"{address}/version")
            return
        time.sleep(0.05)
    raise TimeoutError(address)


@pytest.fixture(scope="module")
def wyoming_port() -> Iterator[int]:
    with Ports() as ports:
        yield ports.free(1)[0]


@pytest.fixture(scope="module")
def address(wyoming_port: int) -> Iterator[str]:
    """A service that asks for no key, and serves Wyoming, too."""
    with compat_process(WYOMING_PORT=str(wyoming_port)) as address:
        yield address
