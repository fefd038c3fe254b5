from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.robustness.measurement.fault_table import FOLDER, OWN, PAGE, read_sections, with_faults
from tests.robustness.measurement.soak_figures import GROWTH_ALLOWED, MB, Figures, Visit
from tests.support.voices import a_done, a_failed
from tools.benchmarks.report import with_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.voices.voice import Voice

ROOT = Path(__file__).parents[3]
NAMED = {
    test for section in read_sections() for fault in section["faults"] for test in fault["tests"]
}


def functions_of(path: Path) -> set[str]:
    return set(re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))


def test_the_tables_on_the_page_are_those_that_the_command_writes() -> None:
    assert with_faults(PAGE.read_text()) == PAGE.read_text()
    assert all(fault["fault"] and fault["end"] for s in read_sections() for fault in s["faults"])


def test_every_fault_names_tests_that_are_there() -> None:
    for name in NAMED:
        file, _, function = name.partition("::")
        assert (ROOT / file).exists(), name
        assert not function or function in functions_of(ROOT / file), name
    assert all(fault["tests"] for section in read_sections() for fault in section["faults"])


def test_every_test_of_faults_is_named_by_a_fault() -> None:
    tests = {
        f"{OWN}{path.name}::{function}"
        for path in FOLDER.glob("test_*.py")
        for function in functions_of(path)
    }
    assert sorted(tests - NAMED) == []


FLAT = [200 * MB] * 20
TAKEN_OVER = replace(a_done(), attempt=2)


def a_visit(voice: Voice | None = None, wait_seconds: float = 1.0, results: int = 1) -> Visit:
    voice = voice or a_done()
    own = [voice.result.object] if voice.result else []
    own += [f"{voice.voice_id}/{number + 7}.wav" for number in range(results - 1)]
    return Visit(voice.voice_id, wait_seconds, voice, is_settled=True, results=own)


def figures(*visits: Visit, kills: int = 1, memory: Sequence[int] = FLAT) -> Figures:
    return Figures([*visits, a_visit()], kills, {"convert-1": memory})


def growing(start: float, end: float) -> list[int]:
    return [int(start + (end - start) * n / 39) for n in range(40)]


@pytest.mark.parametrize(
    "well",
    [
        figures(a_visit(TAKEN_OVER, 6.0), a_visit(wait_seconds=9.0)),
        figures(memory=growing(1000 * MB, 1000 * MB * (GROWTH_ALLOWED - 0.01))),
        figures(memory=[*FLAT, 900 * MB]),
        replace(figures(), kills=None, pushes=[204] * 995 + [429] * 5),
    ],
)
def test_a_run_in_which_every_voice_has_its_one_result_is_well(well: Figures) -> None:
    assert well.complaints() == []


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (figures(a_visit(TAKEN_OVER, 6.1)), "interrupted voices waited for 6.1 s (p95)"),
        (replace(figures(), false_takeovers=2), "2 voices were taken from workers that lived"),
        (figures(a_visit(results=2)), "1 voices have not exactly their one result"),
        (figures(a_visit(a_failed())), "1 voices have failed"),
        (
            figures(memory=growing(200 * MB, 260 * MB)),
            "the memory of convert-1 has grown from 203 to 257 MB",
        ),
        (
            replace(figures(), kills=None, pushes=[204] * 993 + [429, 503, None] * 2),
            "6 of 999 pushes were refused",
        ),
        (figures(kills=0), "there was no load, no kill, or nothing whose memory was measured"),
    ],
)
def test_what_is_not_well_is_a_finding(found: Figures, complaint: str) -> None:
    assert found.complaints() == [complaint]


@pytest.mark.parametrize("kills", [None, 1])
def test_the_page_has_a_place_for_each_soak(kills: int | None) -> None:
    report = replace(figures(), kills=kills).report()

    assert report.markdown() in with_figures(PAGE.read_text(), report)
