"""Loads a bundle as the container does, in a process of its own, and prints the milliseconds.

python -m training.quality.loading BUNDLE
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

import onnxruntime  # noqa: F401 - loading the runtime is no part of loading a bundle

from speech.bundles.reading import load_character
from speech.engines.registry import ENGINES, build_engine
from speech.networks.settings import SessionSettings

_PROCESSES = 12


def loading_ms(bundle: Path) -> tuple[float, float]:
    """By the clock, the engine's trial run included; best and median of some fresh processes.

    Where much else was loaded before, memory is touched more slowly than in the container.
    """
    command = [sys.executable, "-m", "training.quality.loading", str(bundle)]
    runs = [subprocess.run(command, capture_output=True, check=True) for _ in range(_PROCESSES)]
    times = [float(run.stdout) for run in runs]
    return min(times), statistics.median(times)


def _load_once(bundle: Path) -> float:
    began = time.perf_counter()
    build_engine(load_character(bundle, ENGINES), SessionSettings(threads=1))
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    print(_load_once(Path(sys.argv[1])))
