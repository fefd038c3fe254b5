"""The command that README prints for programs of others, Ctrl-C, and a port that is taken."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx

from infra.local.configuration.names import Ports
from tests.integration.compat.conftest import ROOT, wait_for
from tests.support.examples import commands

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "functions.compat"]
LONG_TEXT = "むかしむかし、あるところに、おじいさんとおばあさんがいました。" * 12
GRACE_SECONDS = 8
"""After these Gunicorn would kill what still runs."""


def speak(address: str) -> None:
    """Have a long text spoken; the answer never comes."""
    with suppress(httpx.HTTPError), httpx.Client(base_url=address, timeout=60) as client:
        query = client.post("/audio_query", params={"speaker": 0, "text": LONG_TEXT}).json()
        client.post("/synthesis", params={"speaker": 0}, json=query)


def test_ctrl_c_ends_several_processes_at_once_though_one_of_them_speaks(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Ports() as ports, log.open("w") as output:
        port = ports.free(1)[0]
        (printed,) = commands((ROOT / "docs/compatible-apis.md").read_text(), "WORKERS=2 python ")
        variables = {"PYTHONPATH": str(ROOT), "PORT": str(port), "WORKERS": "2"}
        # To Gunicorn alone, as a supervisor sends it: a terminal also sends it to the processes.
        process = subprocess.Popen(
            [sys.executable, *printed],
            env=os.environ | variables,
            cwd=ROOT,
            stderr=output,
            stdout=output,
        )
        try:
            wait_for(f"http://127.0.0.1:{port}", process)
            speaking = threading.Thread(target=speak, args=[f"http://127.0.0.1:{port}"])
            speaking.start()
            time.sleep(1)
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            code = process.wait(30)
            seconds = time.monotonic() - begin
            speaking.join()
        finally:
            process.kill()

    assert code == 0
    assert seconds < GRACE_SECONDS / 2
    assert "SIGKILL" not in log.read_text()
    assert "ERROR" not in log.read_text()


def test_a_port_that_another_program_has_is_said_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for workers in ("1", "2"):
            variables = {"PYTHONPATH": str(ROOT), "PORT": str(port), "WORKERS": workers}
            ended = subprocess.run(
                COMMAND, env=os.environ | variables, capture_output=True, text=True, check=False
            )

            assert ended.returncode == 2
            assert ended.stderr == (
                f"PORT={port} at 127.0.0.1 cannot be used: Address already in use."
                " Stop the program that has it, or choose another PORT.\n"
            )
