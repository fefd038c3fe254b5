"""The command of the benchmarks: `python -m tools.benchmarks NAME | all | guard | pages`."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from infra.local.configuration.options import ROOT
from tools.benchmarks import guard
from tools.benchmarks.report import Report, write_figures

FOLDER: Final = Path(__file__).parent
RESULTS: Final = FOLDER / "results"
QUICK_RESULTS: Final = ROOT / ".local" / "benchmarks"

MODULES: Final = {
    "convert": "convert",
    "cold-start": "cold_start",
    "waiters": "waiters",
    "pipeline": "pipeline",
    "text": "text",
    "cost": "cost",
}
"""The module of each benchmark. Its function `run(*, quick)` returns a `Report`.

`all` runs them in this order: cost reads the reports of convert, pipeline and text.
"""

README: Final = FOLDER / "README.md"
PAGES: Final = {"cost": ROOT / "docs" / "deploy.md"}
"""The pages of benchmarks whose figures are not in the README."""


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    results = parsed.results or (QUICK_RESULTS if parsed.quick else RESULTS)
    if parsed.name == "pages":
        for path in sorted(RESULTS.glob("*.json")):
            write_figures(page_of(path.stem), [path])
        return 0
    if parsed.name == "all":
        return run_all(results, quick=parsed.quick)
    if parsed.name == "guard":
        return guard.main(accept=parsed.accept)
    path = run_one(parsed.name, results, quick=parsed.quick)
    if results == RESULTS:
        write_figures(page_of(parsed.name), [path])
    return 0


def page_of(name: str) -> Path:
    return PAGES.get(name, README)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nox -s bench --", description="Measure speed and cost.")
    parser.add_argument(
        "name",
        choices=(*MODULES, "all", "guard", "pages"),
        help="a benchmark; all: every benchmark; guard: compare ratios with the accepted ones;"
        " pages: write the stored figures into the pages again",
    )
    parser.add_argument("--quick", action="store_true", help="measure less and change no page")
    text = "folder for the JSON files; pages are written only from the default folder"
    parser.add_argument("--results", type=Path, help=text)
    text = "guard: accept the measured ratios; later runs are compared with them"
    parser.add_argument("--accept", action="store_true", help=text)
    return parser


def run_one(name: str, results: Path, *, quick: bool) -> Path:
    # Before gRPC is imported: local clouds are started while its threads run.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    found = import_module(f"{__package__}.{MODULES[name]}").run(quick=quick)
    report = asyncio.run(found) if inspect.iscoroutine(found) else found
    if not isinstance(report, Report) or report.name != name:
        raise TypeError(f"the benchmark {name!r} must return a Report of that name")
    report.show()
    return report.save(results)


def run_all(results: Path, *, quick: bool) -> int:
    failed = []
    for name in MODULES:
        started = time.perf_counter()
        command = (sys.executable, "-m", str(__package__), name, "--results", str(results))
        code = subprocess.run((*command, *(["--quick"] * quick)), check=False).returncode
        print(f"{name}: {time.perf_counter() - started:.0f} s, exit code {code}", flush=True)
        if code:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
