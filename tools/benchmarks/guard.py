"""Compares ratios of costs from one run with accepted ratios, on any machine."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from tools.benchmarks.report import Report, Table

Measure = Callable[[str], Mapping[str, float]]

GUARDED: Final = ("convert", "cold-start", "waiters")
"""The benchmarks whose quick versions give ratios within the minutes that CI has."""

STORED: Final = Path(__file__).parent / "guard.json"
TOLERATED: Final = 1.5  # a ratio fails if it is greater than this times the accepted one
TRIES: Final = 3  # how often a benchmark with a bad ratio is run: noise passes, a regression stays
ACCEPT: Final = "run `nox -s bench -- guard --accept`"


@dataclass(frozen=True, slots=True)
class StageFinding:
    """One ratio: the accepted one (None if it is new) and the measured one (None if it is gone)."""

    benchmark: str
    ratio: str
    accepted: float | None
    measured: float | None

    @property
    def is_worse(self) -> bool:
        if self.accepted is None or self.measured is None:
            return False
        return self.measured > TOLERATED * self.accepted

    @property
    def complaint(self) -> str:
        if self.accepted is None:
            return f"not stored: {ACCEPT}"
        if self.measured is None:
            return f"not measured any more: {ACCEPT}"
        times = self.measured / self.accepted if self.is_worse else 0
        return f"{times:.2f} times what was accepted" if times else ""


def check(benchmark: str, accepted: Mapping[str, float], measure: Measure) -> list[StageFinding]:
    best: dict[str, float] = {}
    findings: list[StageFinding] = []
    for _ in range(TRIES):
        for name, ratio in measure(benchmark).items():
            best[name] = min(ratio, best.get(name, ratio))
        names = dict.fromkeys((*accepted, *best))
        findings = [
            StageFinding(benchmark, name, accepted.get(name), best.get(name)) for name in names
        ]
        if not any(finding.is_worse for finding in findings):
            break
    return findings


def measure_quickly(benchmark: str) -> Mapping[str, float]:
    """Run the quick version of a benchmark in a process of its own and return its ratios."""
    with tempfile.TemporaryDirectory() as folder:
        command = (sys.executable, "-m", str(__package__), benchmark, "--quick")
        subprocess.run((*command, "--results", folder), check=True, stdout=sys.stderr)
        return Report.load(Path(folder) / f"{benchmark}.json").ratios


def main(*, accept: bool, path: Path = STORED, measure: Measure = measure_quickly) -> int:
    if accept:
        measured = {}
        for benchmark in GUARDED:
            runs = [measure(benchmark) for _ in range(TRIES)]
            measured[benchmark] = {name: median(run[name] for run in runs) for name in runs[0]}
        path.write_text(json.dumps(measured, indent=2) + "\n")
        return 0
    stored = json.loads(path.read_text()) if path.is_file() else {}
    findings = [
        finding
        for benchmark in GUARDED
        for finding in check(benchmark, stored.get(benchmark, {}), measure)
    ]
    columns = ("benchmark", "ratio", "accepted", "measured", "")
    rows = tuple((f.benchmark, f.ratio, f.accepted, f.measured, f.complaint) for f in findings)
    print(Table("Ratios", columns, rows).markdown(), flush=True)
    return int(any(finding.complaint for finding in findings))
