"""Processes that Gunicorn supervises; tests/integration/test_convert_processes.py runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gunicorn import config

from infra.local.configuration.names import Ports
from shared.container.supervision import ConvertWorker


def test_a_process_that_hangs_at_once_has_a_heartbeat_that_grows_old() -> None:
    gunicorn: Any = config
    began = time.monotonic()
    heartbeats: Any = ConvertWorker(1, 0, [], None, 5.0, gunicorn.Config(), None).tmp
    try:
        assert began - 1 <= heartbeats.last_update() <= time.monotonic()
    finally:
        heartbeats.close()


ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys, time
from shared.container.process_plan import ServingSettings
from shared.container.supervision import run

load_seconds, load_timeout, port = map(int, sys.argv[1:])
settings = ServingSettings(
    host="127.0.0.1", port=port, workers=2, concurrency=2, timeout=5, load_timeout=load_timeout
)

async def serve(_settings, supervision):
    time.sleep(load_seconds)
    print("ready", flush=True)
    await supervision.send_heartbeats(lambda: False, lambda: False)

run(settings, serve)
"""


@pytest.mark.parametrize(
    ("load_seconds", "load_timeout", "said"),
    [(8, 60, "ready"), (60, 5, "LOAD_TIMEOUT=5 s; it is started again")],
)
def test_a_process_that_loads_slowly_has_a_limit_of_its_own(
    load_seconds: int, load_timeout: int, said: str
) -> None:
    with Ports() as ports:
        numbers = (load_seconds, load_timeout, *ports.free(1))
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, numbers)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            assert program.stdout is not None
            told: list[str] = []
            for line in program.stdout:
                told.append(line)
                if said in line:
                    break
            assert said in told[-1], told
            assert "WORKER TIMEOUT" not in "".join(told)
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.communicate()
