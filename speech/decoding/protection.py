"""Which of the means that protect the service from decoding processes this system lacks."""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path
from typing import Final

_MEMORY_OF_PROCESS: Final = Path("/proc/self/statm")


def missing_protection(statm: Path = _MEMORY_OF_PROCESS) -> tuple[str, ...]:
    """Name the missing means of forked processes with limits; none on Linux.

    Args:
        statm: the file in which Linux tells how much memory a process uses.
    """
    means = {
        "fork": hasattr(os, "fork"),
        "safe passing of files between processes": hasattr(socket, "MSG_CMSG_CLOEXEC"),
        "/proc": statm.exists(),
        "limits of resources": importlib.util.find_spec("resource") is not None,
    }
    return tuple(name for name, is_there in means.items() if not is_there)
