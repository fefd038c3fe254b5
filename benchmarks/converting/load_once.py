"""Loads a character in a fresh process and prints how long each step took, as JSON.

python -m benchmarks.converting.load_once FOLDER [LEVEL]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

# Beforehand: starting the runtime is a matter of the process, which cold-start measures.
import onnxruntime  # noqa: F401
import psutil

from functions.convert.bundle import load_character
from functions.convert.engines import SessionSettings, build_engine


def main(folder: str) -> None:
    """Load the bundle as the container does."""
    memory = psutil.Process().memory_info().rss
    begin, cpu = time.perf_counter(), time.process_time()
    character = load_character(Path(folder))
    checked, checked_cpu = time.perf_counter(), time.process_time()
    build_engine(character, SessionSettings())
    ready, ready_cpu = time.perf_counter(), time.process_time()
    found = {
        "checked": 1000 * (checked - begin),
        "built": 1000 * (ready - checked),
        "checked_cpu": 1000 * (checked_cpu - cpu),
        "built_cpu": 1000 * (ready_cpu - checked_cpu),
        "megabytes": (psutil.Process().memory_info().rss - memory) / 1e6,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
