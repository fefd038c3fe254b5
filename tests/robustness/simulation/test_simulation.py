from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from shared.container.admission import _Place
from shared.voices import voice as voices_of
from shared.voices.store import change
from shared.voices.voice import Voice
from tests.robustness.simulation.__main__ import main
from tests.robustness.simulation.schedule import Schedule
from tests.robustness.simulation.search import find, kinds_of
from tests.robustness.simulation.world import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
"""Schedules that have violated an invariant before something was mended."""

BLOCKS = 4
BLOCK = 350


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_schedule_violates_an_invariant(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        finding = find(seed)
        assert finding is None, finding.report()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_schedule_that_was_found_once_violates_nothing_now(case: Path) -> None:
    schedule = Schedule(0, json.loads(case.read_text("utf-8")))

    assert simulate(schedule).violations == []


def test_a_schedule_is_the_same_in_each_run() -> None:
    for seed in range(20):
        drawn = simulate(Schedule(seed), traced=True)
        replayed = simulate(Schedule(seed + 1, drawn.schedule.unusual), traced=True)

        assert replayed.log == drawn.log


async def record_first(
    conversions: Any, voices: Any, message: Any, record: Any, *, attributes: Any, known: Any
) -> None:
    await change(voices, message.voice_id, record, known)
    await conversions.publish(message.encode(), {"voice_id": message.voice_id, **attributes})


def finish_unfenced(voice: Voice, now: Any, _attempt: int, *result: Any, **more: Any) -> Voice:
    return voices_of.finish(voice, now, voice.attempt, *result, **more)


BUGS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "publish after record": (
        lambda: patch("functions.on_upload.uploads.request_conversion", record_first),
        {"recorded before it was published"},
    ),
    "no fencing on finish": (
        lambda: patch("shared.conversion.leases.finish", finish_unfenced),
        {"no fencing", "written without its lease"},
    ),
    "lease without clock": (
        lambda: patch.object(Voice, "lease_remaining", lambda _voice, _now: timedelta(0)),
        {"two leases at once", "written without its lease"},
    ),
    "first come, first served": (
        lambda: patch.object(_Place, "used", (0.0, 0.0)),
        {"unfair"},
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_that_is_put_in_is_found_and_its_schedule_shrunk(
    bug: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in, kinds = BUGS[bug]
    with put_in():
        finding = next(filter(None, map(find, range(1000))))
        file = tmp_path / "schedule.json"
        file.write_text(json.dumps(finding.schedule))

        assert kinds_of([finding.violation]) <= kinds
        assert main(["--replay", str(file)]) == 1
        assert finding.violation in capsys.readouterr().out
        # Every choice that is left is needed.
        for point in finding.schedule:
            fewer = {each: choice for each, choice in finding.schedule.items() if each != point}
            assert not kinds_of([finding.violation]) & kinds_of(
                simulate(Schedule(0, fewer)).violations
            )
