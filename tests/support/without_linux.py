"""Runs a module without the means that Windows and, in part, macOS lack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]

WITHOUT_LINUX = """
import asyncio, os, runpy, signal, socket, sys

# As in a terminal, also where the tests run in the background of a shell, which ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
del socket.MSG_CMSG_CLOEXEC, os.fork, os.memfd_create, os.pidfd_open, os.sched_getaffinity
del os.killpg, os.mkfifo, signal.SIGHUP, socket.SO_REUSEPORT
for module in ("fcntl", "grp", "pwd", "resource", "gunicorn"):
    sys.modules[module] = None

def refuse(*_arguments):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = refuse
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""What `python -c` gets, before the module's name and its arguments."""


def run_without_linux(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a module of this repository with its arguments to its end, in a folder."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LINUX, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
