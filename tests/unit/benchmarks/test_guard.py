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


@pytest.mark.parametrize(
    ("runs", "times"),
    [
        ([{"decode by network": 0.29, "encode by network": 0.01}], 1),
        ([{**ACCEPTED, "encode by network": 0.4}, ACCEPTED], 2),
        ([{**ACCEPTED, "encode by network": 0.4}, {**ACCEPTED, "decode by network": 0.9}], 2),
    ],
    ids=["a little worse", "slow only once", "slow in different runs"],
)
def test_ratios_that_were_good_once_pass(
    stored: Path, runs: list[Mapping[str, float]], times: int
) -> None:
    benchmarks = FakeBenchmarks(*runs)

    assert guard.main(accept=False, path=stored, measure=benchmarks) == 0
    assert benchmarks.run.count(GUARDED[0]) == times


@pytest.mark.parametrize(
    ("measured", "tries", "complaint"),
    [
        ({**ACCEPTED, "decode by network": 0.31}, TRIES, "0.310 | 1.55 times what was"),
        ({**ACCEPTED, "resample by network": 0.1}, 1, "not stored"),
        ({"decode by network": 0.2}, 1, "not measured any more"),
    ],
)
def test_a_slower_stage_and_a_ratio_on_one_side_only_fail(
    stored: Path,
    measured: Mapping[str, float],
    tries: int,
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    benchmarks = FakeBenchmarks(measured)

    assert guard.main(accept=False, path=stored, measure=benchmarks) == 1
    assert benchmarks.run.count(GUARDED[0]) == tries
    assert complaint in capsys.readouterr().out


def test_later_runs_are_compared_with_the_accepted_ratios(tmp_path: Path) -> None:
    path, runs = tmp_path / "guard.json", [{"decode by network": r} for r in (0.9, 0.5, 0.4)]

    assert guard.main(accept=False, path=path, measure=FakeBenchmarks(runs[1])) == 1
    assert guard.main(accept=True, path=path, measure=FakeBenchmarks(*runs)) == 0
    assert guard.main(accept=False, path=path, measure=FakeBenchmarks(runs[1])) == 0
    slower = FakeBenchmarks({"decode by network": 0.76})
    assert guard.main(accept=False, path=path, measure=slower) == 1
