"""The environment of decoding processes of every kind."""

from __future__ import annotations

import json
import os
import sys
from typing import Final

GRACE_SECONDS: Final = 1.0
"""A process has its own time limit; this much later the service stops waiting for it."""

_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


def bare_environment() -> dict[str, str]:
    """Return the variables without which libraries are not found, and no other of the service."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


def python_command(module: str) -> tuple[str, ...]:
    """Return the command that calls `main` of a module, with this process's search path."""
    search_path = "import json, sys; sys.path[:] = json.loads(sys.argv[1])"
    program = f"{search_path}; from {module} import main; main()"
    return (sys.executable, "-I", "-c", program, json.dumps(sys.path))
