from __future__ import annotations

from typing import TYPE_CHECKING

from functions.api.problems import LATEST_SECONDS, RetrySchedule
from shared.voices.store import StoreUnavailableError
from tests.support.clock import Clock

if TYPE_CHECKING:
    import pytest

    from tests.unit.api.stage import ApiStage


def test_a_crowd_comes_back_no_faster_than_visitors_were_served() -> None:
    clock = Clock()
    schedule = RetrySchedule(clock)
    for _ in range(40):
        schedule.count_served()

    turns = [schedule.next_turn() for _ in range(40)]

    # Four visitors a second were served in the last ten seconds.
    assert turns == sorted(turns)
    assert all(turns.count(second) <= 4 for second in range(3, 12))
    assert turns[-1] == 12


def test_visitors_of_long_ago_do_not_count_and_nobody_is_sent_away_for_more_than_a_minute() -> None:
    clock = Clock()
    schedule = RetrySchedule(clock)
    for _ in range(40):
        schedule.count_served()
    clock.seconds += 11
    assert [schedule.next_turn() for _ in range(4)] == [2, 3, 4, 5]
    assert max(schedule.next_turn() for _ in range(1000)) == LATEST_SECONDS

    # When they have all come back, the next visitor waits a moment only.
    clock.seconds += 100
    assert schedule.next_turn() == 2


async def test_whoever_meets_a_store_that_does_not_answer_gets_a_turn(
    stage: ApiStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_voice: object) -> None:
        raise StoreUnavailableError("no answer")

    monkeypatch.setattr(stage.voices, "create", fail)
    answers = [await stage.http.post("/api/v1/voices", json={}) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [503] * 3
    assert [answer.headers["Retry-After"] for answer in answers] == ["2", "3", "4"]
