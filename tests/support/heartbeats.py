"""Lets a process that Gunicorn supervises have been silent for long, without the waiting.

A test that waited for a short `TIMEOUT` would fail where a process takes as long to start.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import psutil


def let_have_been_silent(pid: int, seconds: float) -> None:
    """Let the last heartbeat of a process have come so long ago.

    Gunicorn keeps it as the time of a deleted file, on the monotonic clock.
    """
    parent = psutil.Process(pid).parent()
    assert parent is not None
    # Right after the fork it still has the files of the processes before it.
    others = [each.pid for each in parent.children() if each.pid != pid]
    inherited = {inode for other in others for inode in _heartbeat_files(other)}
    (own,) = (path for inode, path in _heartbeat_files(pid).items() if inode not in inherited)
    last = time.monotonic() - seconds
    os.utime(own, (last, last))


def _heartbeat_files(pid: int) -> dict[int, Path]:
    found = {}
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if "/wgunicorn-" in str(path.readlink()):
                found[path.stat().st_ino] = path
    return found
