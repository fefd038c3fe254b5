"""Loads a character in a fresh process and prints how long each step took, as JSON.

python -m tools.benchmarks.fresh_load BUNDLE_FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

# Beforehand: starting the runtime is a matter of the process, which cold-start measures.
import onnxruntime  # noqa: F401
import psutil

from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings


def main(path: str) -> None:
    """Load a bundle as the container does, and print what it took."""
    memory, spent = psutil.Process().memory_info().rss, time.process_time()
    begin = time.perf_counter()
    character = load_character(Path(path), ENGINES)
    checked = time.perf_counter()
    build_engine(character, SessionSettings())
    built = time.perf_counter()
    found = {
        "steps": {
            "checks": 1000 * (checked - begin),
            "session and trial run": 1000 * (built - checked),
        },
        "cpu": 1000 * (time.process_time() - spent),
        "megabytes": (psutil.Process().memory_info().rss - memory) / 1e6,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
