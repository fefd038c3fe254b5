"""Processes that Gunicorn supervises; tests/integration/test_convert_processes.py runs them."""

from __future__ import annotations

import time
from typing import Any

from gunicorn import config

from shared.container.supervision import ConvertWorker


def test_a_process_that_hangs_at_once_has_a_heartbeat_that_grows_old() -> None:
    gunicorn: Any = config
    began = time.monotonic()
    heartbeats: Any = ConvertWorker(1, 0, [], None, 5.0, gunicorn.Config(), None).tmp
    try:
        assert began - 1 <= heartbeats.last_update() <= time.monotonic()
    finally:
        heartbeats.close()
