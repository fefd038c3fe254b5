"""The command of the benchmarks: `python -m tools.benchmarks NAME | all | guard | pages`."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.benchmarks.report import BenchmarkOptions, Report, write_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER: Final = Path(__file__).parent
RESULTS: Final = FOLDER / "results"
QUICK_RESULTS: Final = FOLDER.parent / ".local" / "benchmarks"
"""Results of `--quick` do not go into any page."""

MODULES: Final = {
    "convert": "tools.benchmarks.convert",
    "cold-start": "tools.benchmarks.cold_start",
    "waiters": "tools.benchmarks.waiters",
    "pipeline": "tools.benchmarks.pipeline",
    "traces": "tools.benchmarks.traces",
    "cost": "tools.benchmarks.cost",
    "rvc": "tools.benchmarks.rvc",
    "text": "tools.benchmarks.text",
    "hearing": "tools.benchmarks.preview",
    "live": "tools.benchmarks.live",
    "ahead": "tools.benchmarks.slow_voices",
    "watermark": "tools.benchmarks.watermark",
}
"""The module of each benchmark; its `run` takes `Options` and returns a `Report`.

`all` runs them in this order: cost reads the report of pipeline.
"""

README: Final = FOLDER / "README.md"
PAGES: Final = {"cost": FOLDER.parent / "docs" / "deploy.md"}
"""Where the figures of a benchmark go, if not into the README."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    parsed = _parser().parse_args(arguments)
    results = parsed.results or (QUICK_RESULTS if parsed.quick else RESULTS)
    if parsed.name == "pages":
        for path in sorted(RESULTS.glob("*.json")):
            write_figures(page_of(path.stem), [path])
        return 0
    if parsed.name == "all":
        return run_all(results, quick=parsed.quick)
    if parsed.name == "guard":
        guard = import_module("tools.benchmarks.guard")
        return int(guard.main(accept=parsed.accept))
    path = run_one(parsed.name, BenchmarkOptions(quick=parsed.quick), results)
    if results == RESULTS:
        write_figures(page_of(parsed.name), [path])
    return 0


def page_of(name: str) -> Path:
    """Return the page that shows the figures of a benchmark."""
    return PAGES.get(name, README)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    text = "a benchmark; all: every one; guard: compare ratios with the stored ones; "
    names = (*MODULES, "all", "guard", "pages")
    parser.add_argument("name", choices=names, help=text + "pages: write the stored figures again")
    parser.add_argument("--quick", action="store_true", help="measure less and change no page")
    text = "folder for the JSON files; pages are written only from the default one"
    parser.add_argument("--results", type=Path, default=None, help=text)
    text = "guard: store the measured ratios; later runs are compared with them"
    parser.add_argument("--accept", action="store_true", help=text)
    return parser


def run_one(name: str, options: BenchmarkOptions, results: Path) -> Path:
    """Run one benchmark in this process, print and save its report, and return the file."""
    answer = import_module(MODULES[name]).run(options)
    report = asyncio.run(answer) if inspect.iscoroutine(answer) else answer
    if not isinstance(report, Report) or report.name != name:
        raise TypeError(f"{MODULES[name]}.run must return a Report named {name!r}")
    report.show()
    return report.save(results)


def run_all(results: Path, *, quick: bool) -> int:
    """Run every benchmark in a process of its own, one after another; 1 if one of them failed."""
    failed = []
    for name in MODULES:
        started = time.perf_counter()
        command = (sys.executable, "-m", "tools.benchmarks", name, "--results", str(results))
        options = ("--quick",) if quick else ()
        code = subprocess.run((*command, *options), check=False).returncode
        print(f"{name}: {time.perf_counter() - started:.0f} s, exit code {code}", flush=True)
        if code:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
