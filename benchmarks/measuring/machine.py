"""The kind of machine that the figures were measured on; nothing names the machine itself."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final

import psutil

ROOT: Final = Path(__file__).parents[2]
LIBRARIES: Final = ("onnxruntime", "numpy", "grpcio")
GIB: Final = 1 << 30


def describe_machine() -> dict[str, str | int | float | bool | None]:
    """Return processor, memory (GiB), versions, commit and date."""
    return {
        "processor": processor_name(Path("/proc/cpuinfo")),
        "cores": len(os.sched_getaffinity(0)),
        "memory (GiB)": round(psutil.virtual_memory().total / GIB),
        "Python": platform.python_version(),
        **{name: metadata.version(name) for name in LIBRARIES},
        "commit": commit(ROOT),
        "date": datetime.now(UTC).date().isoformat(),
    }


def processor_name(cpuinfo: Path) -> str:
    """Return the processor's name as the kernel tells it, else the architecture."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.machine()


def commit(root: Path) -> str | None:
    """Return the commit that is measured, or None outside a repository; + means: and changes."""
    git = shutil.which("git")
    if git is None:
        return None
    command = (git, "-C", str(root), "describe", "--always", "--abbrev=10", "--exclude=*")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    status = (
        git,
        "-C",
        str(root),
        "status",
        "--porcelain",
        "functions",
        "shared",
        "speech",
        "infra",
    )
    changes = subprocess.run(status, capture_output=True, text=True, check=False)
    return done.stdout.strip() + ("+" if changes.stdout.strip() else "")
