"""Runs a program that ends with the process that started it, even if that one is killed.

    python infra/local/processes/parent_guard.py PARENT_PID PROGRAM ARGUMENT...

It is a program of its own because Python code between fork and exec is not safe in a process with
threads: gRPC's fork handlers run there, too. It needs Linux, and imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_NOT_STARTED: Final = 127


def main(parent: int, command: list[str]) -> int:
    """Become the program; return an exit status only if that fails."""
    # Not SIGKILL: a server with worker processes must be able to stop them.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        # It ended before it could be watched.
        return _NOT_STARTED
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    return _NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
