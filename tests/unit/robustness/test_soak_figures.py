"""A soak that has lost, doubled or leaked something must not end well."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.robustness.measurement import soak
from tests.robustness.measurement.soak_figures import (
    ENDS,
    GROWTH_ALLOWED,
    GROWTH_ALLOWED_BYTES,
    MB,
    Figures,
    Visit,
)
from tests.support.voices import a_done, a_failed
from tools.benchmarks.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from shared.voices.voice import Voice


FLAT = [200 * MB] * 20


def a_visit(voice: Voice | None = None, wait_seconds: float = 1.0) -> Visit:
    voice = voice or a_done()
    own = (voice.result.object,) if voice.result else ()
    return Visit(voice.voice_id, wait_seconds, voice, is_settled=True, results=own)


def a_lost_visit() -> Visit:
    return Visit(a_done().voice_id)


def figures(*visits: Visit, kills: int = 1, memory: Sequence[int] = FLAT) -> Figures:
    return Figures([*visits, a_visit()], kills, {"convert-1": memory})


def test_a_run_in_which_every_voice_has_its_one_result_is_well() -> None:
    taken_over = replace(a_done(), attempt=2)

    assert figures(a_visit(), a_visit(taken_over)).complaints() == []


def test_an_interrupted_voice_that_waited_for_too_long_is_a_finding() -> None:
    taken_over = replace(a_done(), attempt=2)

    assert figures(a_visit(taken_over, 6.0), a_visit(wait_seconds=9.0)).complaints() == []
    (complaint,) = figures(a_visit(taken_over, 6.1)).complaints()
    assert complaint == "interrupted voices waited for 6.1 s (p95)"


def test_a_voice_that_was_taken_from_a_living_worker_is_a_finding() -> None:
    found = replace(figures(a_visit()), false_takeovers=2).complaints()

    assert found == ["2 voices were taken from workers that lived"]


def test_a_voice_without_an_end_is_lost() -> None:
    assert figures(a_lost_visit(), Visit()).complaints() == ["2 voices are lost"]


@pytest.mark.parametrize("more", [1, 2])
def test_a_voice_with_a_second_result_is_doubled(more: int) -> None:
    visit = a_visit()
    visit.results = [*visit.results, *(f"{visit.voice_id}/{n + 7}.wav" for n in range(more))]

    assert figures(visit).complaints() == ["1 voices have not exactly their one result"]


def test_a_missing_or_different_result_is_a_finding() -> None:
    without, other = a_visit(), a_visit()
    without.results, other.results = (), (f"{other.voice_id}/9.wav",)

    assert figures(without, other).doubled == 2


def test_a_failed_voice_is_named_by_its_code_and_may_leave_no_result() -> None:
    failed, with_a_result = a_visit(a_failed()), a_visit(a_failed())
    with_a_result.results = (f"{with_a_result.voice_id}/1.wav",)
    found = figures(failed, with_a_result)

    code = str(failed.voice.error.code) if failed.voice and failed.voice.error else ""
    assert found.failed == {code: 2}
    assert found.doubled == 1
    assert "2 voices have failed" in found.complaints()


def test_a_message_that_is_never_acknowledged_is_a_finding() -> None:
    visit = a_visit()
    visit.is_settled = False

    assert figures(visit).complaints() == ["1 voices have messages that nobody has acknowledged"]


def growing(start: float, end: float) -> list[int]:
    steps = 40
    return [int(start + (end - start) * n / (steps - 1)) for n in range(steps)]


def test_growing_memory_is_a_finding() -> None:
    (complaint,) = figures(memory=growing(200 * MB, 260 * MB)).complaints()

    assert "memory of convert-1 has grown from 203 to 257 MB" in complaint


@pytest.mark.parametrize(
    "memory",
    [
        FLAT,
        growing(260 * MB, 200 * MB),
        # Large, and hardly more of it.
        growing(1000 * MB, 1000 * MB * (GROWTH_ALLOWED - 0.01)),
        # A large share of little.
        growing(20 * MB, 20 * MB + GROWTH_ALLOWED_BYTES - MB),
        # One sample on a peak.
        [*FLAT, 900 * MB],
        [*FLAT[:-ENDS], 900 * MB, *FLAT[-ENDS + 1 :]],
    ],
)
def test_varying_memory_is_not_a_finding(memory: Sequence[int]) -> None:
    assert figures(memory=memory).complaints() == []


@pytest.mark.parametrize(
    "empty",
    [Figures([], 1, {"convert-1": FLAT}), figures(kills=0), Figures([a_visit()], 1, {})],
)
def test_a_run_without_voices_or_kills_is_a_finding(empty: Figures) -> None:
    assert len(empty.complaints()) == 1


def test_the_report_contains_every_figure() -> None:
    visits = [a_visit(wait_seconds=float(n)) for n in range(1, 101)]
    visits += [a_visit(a_failed()), a_lost_visit(), a_visit(replace(a_done(), attempt=2))]
    report = Figures(visits, 3, {"convert-1": growing(200 * MB, 210 * MB)}).report()

    rows = {row[0]: row[1] for row in report.tables[0].rows}
    assert (rows["voices"], rows["done"], rows["lost"], rows["doubled"]) == (103, 101, 1, 0)
    assert rows["containers killed in the middle of a conversion"] == 3
    assert rows["voices taken over by another container"] == 1
    assert rows["wait, p99 (s)"] == pytest.approx(99, abs=1)
    assert report.tables[1].rows == (("convert-1", 201, 209),)
    assert "| lost | 1 |" in report.markdown()


MARKS = "<!-- measured folders: begin -->\n\nold\n\n<!-- measured folders: end -->\n"


@pytest.mark.parametrize(
    ("complaints", "code", "says"), [([], 0, ""), (["a voice was lost"], 1, "a voice was lost")]
)
def test_figures_are_written_whatever_the_verdict_and_say_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    complaints: list[str],
    code: int,
    says: str,
) -> None:
    page = tmp_path / "README.md"
    page.write_text(MARKS)
    report = Report("folders", (Table("Folders", ("what", "figure"), (("folders", 7),)),))
    monkeypatch.setattr(soak, "README", page)
    monkeypatch.setattr(soak, "convert_folders", lambda _times: (report, complaints))

    assert soak.main(["--folders", "7", "--write"]) == code

    assert "| folders | 7 |" in page.read_text()
    assert ("NOT WELL" in page.read_text()) == bool(complaints)
    assert says in page.read_text()
