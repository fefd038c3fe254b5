"""NumPy's matrix library reads its number of threads once, when NumPy is first imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Imports a module until NumPy is looked for, and prints the setting at that moment.
SCRIPT = """
import importlib, os, sys

class Looking:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print(os.environ.get("OPENBLAS_NUM_THREADS"), flush=True)
            os._exit(0)

sys.meta_path.insert(0, Looking())
importlib.import_module(sys.argv[1])
"""


@pytest.mark.parametrize(
    "module",
    [
        "functions.convert.main",
        "functions.live.main",
        "functions.live_and_compat.main",
        "functions.compat.main",
        "tools.benchmarks.convert",
    ],
)
def test_whoever_converts_imports_numpy_with_one_thread_for_its_matrices(module: str) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"
    }
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT, module],
        env=environment | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.stdout.splitlines()[:1] == ["1"], finished.stderr
