"""A soak that has lost, doubled or leaked something must not end well."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.robustness.measurement.soak_figures import (
    ENDS,
    GROWTH_ALLOWED,
    GROWTH_ALLOWED_BYTES,
    MB,
    Figures,
    Visit,
)
from tests.support.voices import a_done, a_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.voices.voice import Voice


FLAT = [200 * MB] * 20


def a_visit(voice: Voice | None = None, wait_seconds: float = 1.0) -> Visit:
    voice = voice or a_done()
    own = (voice.result.object,) if voice.result else ()
    return Visit(voice.voice_id, wait_seconds, voice, is_settled=True, results=own)


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


@pytest.mark.parametrize("more", [1, 2])
def test_a_voice_with_a_second_result_is_doubled(more: int) -> None:
    visit = a_visit()
    visit.results = [*visit.results, *(f"{visit.voice_id}/{n + 7}.wav" for n in range(more))]

    assert figures(visit).complaints() == ["1 voices have not exactly their one result"]


def test_a_failed_voice_is_named_by_its_code_and_may_leave_no_result() -> None:
    failed, with_a_result = a_visit(a_failed()), a_visit(a_failed())
    with_a_result.results = (f"{with_a_result.voice_id}/1.wav",)
    found = figures(failed, with_a_result)

    code = str(failed.voice.error.code) if failed.voice and failed.voice.error else ""
    assert found.failed == {code: 2}
    assert found.doubled == 1
    assert "2 voices have failed" in found.complaints()


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
