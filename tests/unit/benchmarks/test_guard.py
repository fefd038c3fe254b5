from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tools.benchmarks import guard
from tools.benchmarks.guard import GUARDED, TRIES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ACCEPTED = {"decode by network": 0.2, "encode by network": 0.05}


class FakeBenchmarks:
    """Benchmarks whose ratios are given, for the first one run by run."""

    def __init__(self, *runs: Mapping[str, float]) -> None:
        self._runs = list(runs)
        self.run: list[str] = []

    def __call__(self, benchmark: str) -> Mapping[str, float]:
        self.run.append(benchmark)
        if benchmark != GUARDED[0]:
            return ACCEPTED
        return self._runs.pop(0) if len(self._runs) > 1 else self._runs[0]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "guard.json"
    path.write_text(json.dumps(dict.fromkeys(GUARDED, ACCEPTED)))
    return path


def test_ratios_that_are_as_good_or_a_little_worse_pass_with_one_run_each(stored: Path) -> None:
    benchmarks = FakeBenchmarks({"decode by network": 0.29, "encode by network": 0.01})

    assert guard.main(accept=False, path=stored, measure=benchmarks) == 0
    assert benchmarks.run == list(GUARDED)


def test_a_stage_that_is_slower_by_more_than_half_fails_and_is_named(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmarks = FakeBenchmarks({"decode by network": 0.31, "encode by network": 0.05})

    assert guard.main(accept=False, path=stored, measure=benchmarks) == 1
    assert benchmarks.run.count(GUARDED[0]) == TRIES
    assert "| decode by network | 0.200 | 0.310 | 1.55 times what was" in capsys.readouterr().out


def test_a_stage_that_was_slow_only_once_passes(stored: Path) -> None:
    benchmarks = FakeBenchmarks({**ACCEPTED, "encode by network": 0.4}, ACCEPTED)

    assert guard.main(accept=False, path=stored, measure=benchmarks) == 0
    assert benchmarks.run.count(GUARDED[0]) == 2


def test_two_stages_that_were_slow_in_different_runs_pass(stored: Path) -> None:
    benchmarks = FakeBenchmarks(
        {**ACCEPTED, "encode by network": 0.4}, {**ACCEPTED, "decode by network": 0.9}
    )

    assert guard.main(accept=False, path=stored, measure=benchmarks) == 0


@pytest.mark.parametrize(
    ("measured", "complaint"),
    [
        ({**ACCEPTED, "resample by network": 0.1}, "not stored"),
        ({"decode by network": 0.2}, "not measured any more"),
        ({}, "not measured any more"),
    ],
    ids=["new", "gone", "nothing"],
)
def test_a_ratio_on_one_side_only_fails(
    stored: Path,
    measured: Mapping[str, float],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    benchmarks = FakeBenchmarks(measured)

    assert guard.main(accept=False, path=stored, measure=benchmarks) == 1
    assert benchmarks.run == list(GUARDED)
    assert complaint in capsys.readouterr().out


def test_without_accepted_ratios_every_ratio_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "guard.json"

    assert guard.main(accept=False, path=missing, measure=FakeBenchmarks(ACCEPTED)) == 1
    assert "guard --accept" in capsys.readouterr().out


def test_later_runs_are_compared_with_the_accepted_ratios(tmp_path: Path) -> None:
    path, runs = tmp_path / "guard.json", [{"decode by network": r} for r in (0.9, 0.5, 0.4)]

    assert guard.main(accept=True, path=path, measure=FakeBenchmarks(*runs)) == 0

    assert guard.main(accept=False, path=path, measure=FakeBenchmarks(runs[1])) == 0
    slower = FakeBenchmarks({"decode by network": 0.76})
    assert guard.main(accept=False, path=path, measure=slower) == 1
