"""Detects on any machine that a stage has become slower, by ratios of costs from the same run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from tools.benchmarks.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GUARDED: Final = ("convert", "cold-start", "waiters")
"""The benchmarks whose quick versions tell ratios within the minutes that CI has."""

STORED: Final = Path(__file__).parent / "guard.json"
TOLERATED: Final = 1.5
"""By which factor a ratio may be worse than the stored one."""

TRIES: Final = 3
"""How often a suspicious benchmark is run: noise passes, a regression stays."""

Ratios = dict[str, float]


@dataclass(frozen=True, slots=True)
class StageFinding:
    """One ratio, stored and measured.

    Attributes:
        stored: what it was; None if it is new.
        measured: what it is; None if it is gone.
    """

    benchmark: str
    ratio: str
    stored: float | None
    measured: float | None

    @property
    def is_worse(self) -> bool:
        """Whether the ratio is worse by more than what is tolerated."""
        if self.stored is None or self.measured is None:
            return False
        return self.measured > TOLERATED * self.stored

    @property
    def complaint(self) -> str | None:
        """The problem, if there is one."""
        if self.stored is None:
            return "not stored: run `nox -s bench -- guard --accept`"
        if self.measured is None:
            return "not measured any more: run `nox -s bench -- guard --accept`"
        if self.is_worse:
            return f"{self.measured / self.stored:.2f} times what was accepted"
        return None


def compare(
    benchmark: str, stored: Mapping[str, float], measured: Mapping[str, float]
) -> list[StageFinding]:
    """Compare the ratios of a benchmark, including those that are only stored or only measured."""
    names = [*stored, *(name for name in measured if name not in stored)]
    return [StageFinding(benchmark, name, stored.get(name), measured.get(name)) for name in names]


def watch(
    benchmark: str, stored: Mapping[str, float], measure: Callable[[str], Mapping[str, float]]
) -> list[StageFinding]:
    """Measure a benchmark, repeat it while a ratio is worse, and compare the best of each ratio.

    Args:
        stored: its accepted ratios.
        measure: runs a benchmark and returns its ratios.
    """
    best: Ratios = {}
    for _ in range(TRIES):
        for name, ratio in measure(benchmark).items():
            best[name] = min(ratio, best.get(name, ratio))
        findings = compare(benchmark, stored, best)
        if not any(finding.is_worse for finding in findings):
            break
    return findings


def typical(benchmark: str, measure: Callable[[str], Mapping[str, float]]) -> Ratios:
    """Measure a benchmark several times and return the median of each ratio."""
    runs = [measure(benchmark) for _ in range(TRIES)]
    return {name: median(run[name] for run in runs) for name in runs[0]}


def measure_quickly(benchmark: str) -> Mapping[str, float]:
    """Run the quick version of a benchmark in a process of its own and return its ratios.

    Raises:
        subprocess.CalledProcessError: it failed; its output was printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = (
            sys.executable,
            "-m",
            "tools.benchmarks",
            benchmark,
            "--quick",
            "--results",
            folder,
        )
        subprocess.run(command, check=True, stdout=sys.stderr)
        return Report.load(Path(folder) / f"{benchmark}.json").ratios


def show(findings: Sequence[StageFinding]) -> None:
    """Print every ratio, and what is wrong with it."""
    columns = ("benchmark", "ratio", "accepted", "measured", "")
    rows = tuple(
        (each.benchmark, each.ratio, each.stored, each.measured, each.complaint or "")
        for each in findings
    )
    print(Table("Ratios", columns, rows).markdown(), flush=True)


def main(
    *,
    accept: bool,
    path: Path = STORED,
    measure: Callable[[str], Mapping[str, float]] = measure_quickly,
) -> int:
    """Compare all ratios with the stored ones, or store them anew, and return the exit code.

    Args:
        accept: store the measured ratios instead of comparing.
        path: where the accepted ratios are.
        measure: runs a benchmark and returns its ratios.
    """
    if accept:
        measured = {benchmark: typical(benchmark, measure) for benchmark in GUARDED}
        path.write_text(json.dumps(measured, indent=2) + "\n")
        return 0
    stored: dict[str, Ratios] = json.loads(path.read_text()) if path.is_file() else {}
    findings = [
        finding
        for benchmark in GUARDED
        for finding in watch(benchmark, stored.get(benchmark, {}), measure)
    ]
    show(findings)
    return int(any(finding.complaint for finding in findings))
