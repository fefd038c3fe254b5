"""Loads a character, or one graph, in a fresh process and prints how long each step took, as JSON.

python -m benchmarks.convert.load_once BUNDLE_FOLDER
python -m benchmarks.convert.load_once GRAPH_FILE OPTIMISATION_LEVEL
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

# Beforehand: starting the runtime is a matter of the process, which cold-start measures.
import onnxruntime  # noqa: F401
import psutil

from benchmarks.convert.sessions import Choice, silence
from speech.bundles.onnx_model import inspect_model
from speech.bundles.reading import load_character
from speech.engines.registry import ENGINES, build_engine
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")


class Steps:
    """Times steps, by the clock and by the processor, in milliseconds."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self.cpu_milliseconds = 0.0

    def take(self, name: str, step: Callable[[], _Result]) -> _Result:
        """Take a step."""
        begin, cpu = time.perf_counter(), time.process_time()
        result = step()
        self.milliseconds[name] = 1000 * (time.perf_counter() - begin)
        self.cpu_milliseconds += 1000 * (time.process_time() - cpu)
        return result


def load_bundle(folder: Path, steps: Steps) -> None:
    """Load a bundle as the container does."""
    character = steps.take("checks", lambda: load_character(folder, ENGINES))
    steps.take("session and trial run", lambda: build_engine(character, SessionSettings()))


def load_graph(file: Path, level: str, steps: Steps) -> None:
    """Load a harmonic graph with another choice, step by step."""
    content = steps.take("read", file.read_bytes)
    steps.take("SHA-256", lambda: hashlib.sha256(content).hexdigest())
    steps.take("inspection", lambda: inspect_model(content))
    session = steps.take("session", lambda: Choice("this", level=level).open(content))
    steps.take("trial run", lambda: session.run(["audio"], silence()))


def main(path: str, level: str = "") -> None:
    """Load, and print what it took."""
    memory, steps = psutil.Process().memory_info().rss, Steps()
    if level:
        load_graph(Path(path), level, steps)
    else:
        load_bundle(Path(path), steps)
    found = {
        "steps": steps.milliseconds,
        "cpu": steps.cpu_milliseconds,
        "megabytes": (psutil.Process().memory_info().rss - memory) / 1e6,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
