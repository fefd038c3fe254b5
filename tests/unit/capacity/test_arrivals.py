from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tools.capacity.arrivals import CrowdForecast, daily_rates, read_arrivals
from tools.capacity.parameters import PlanningError, read_parameters

if TYPE_CHECKING:
    from pathlib import Path

PARAMETERS = read_parameters()


def drawn(crowd: CrowdForecast) -> np.ndarray:
    return crowd.arrivals(PARAMETERS, np.random.default_rng(0)).times


def test_a_day_has_as_many_visitors_as_are_expected_in_the_order_of_its_curve() -> None:
    times = drawn(CrowdForecast(per_day=400_000))
    assert len(times) == 400_000
    assert (np.diff(times) >= 0).all()
    assert 0 <= times[0] <= times[-1] < 86_400
    counts = np.histogram(times, bins=24, range=(0, 86_400))[0]
    expected = daily_rates().reshape(24, 3600).sum(axis=1) / 86_400 * 400_000
    assert counts == pytest.approx(expected, rel=0.05)


def test_a_crowd_arrives_within_a_minute_and_leaves_again() -> None:
    times = drawn(CrowdForecast(per_day=1_000_000, flash=100.0))
    assert len(times) == 1_000_000
    evening = 20 * 3600

    def rate(begin: float, seconds: float = 10.0) -> float:
        return float(((times >= begin) & (times < begin + seconds)).sum() / seconds)

    before = rate(evening - 600, 600)
    assert rate(evening + 55) == pytest.approx(92 * before, rel=0.1)
    assert rate(evening + 115) == pytest.approx(rate(evening + 55) / 2, rel=0.15)
    assert rate(evening + 1800, 600) == pytest.approx(before, rel=0.1)


def test_the_busiest_minutes_alone_keep_the_rate_and_the_time_of_day() -> None:
    arrivals = CrowdForecast(peak=50.0, minutes=5).arrivals(PARAMETERS, np.random.default_rng(0))
    assert len(arrivals.times) == pytest.approx(15_000, rel=0.05)
    assert arrivals.seconds == 300
    assert 19 * 3600 < arrivals.begin < 22 * 3600


@pytest.mark.parametrize(
    ("crowd", "said"),
    [
        ({"per_day": -1.0}, "--per-day is -1; it must be from"),
        ({"peak": float("nan")}, "--peak is nan"),
        ({"per_day": 10.0, "flash": 0.5}, "--flash is 0.5; it must be from 1"),
        ({}, "either --per-day N or --peak R"),
        ({"per_day": 10.0, "peak": 1.0}, "either --per-day N or --peak R"),
    ],
)
def test_a_crowd_that_cannot_be_is_refused(crowd: dict[str, float], said: str) -> None:
    with pytest.raises(PlanningError, match=said):
        CrowdForecast(**crowd)


def test_more_voices_than_memory_has_room_for_are_refused() -> None:
    with pytest.raises(PlanningError, match="Add --minutes 5"):
        drawn(CrowdForecast(peak=10_000.0))


@pytest.mark.parametrize(
    ("content", "spoken"),
    [
        (b"seconds,spoken\n20,2\n10,3.5\n", [3.5, 2.0]),
        # A spreadsheet's mark and line ends; the speaking times are drawn.
        (b"\xef\xbb\xbfseconds\r\n20\r\n10\r\n", None),
    ],
)
def test_visitors_can_come_from_a_file(
    tmp_path: Path, content: bytes, spoken: list[float] | None
) -> None:
    path = tmp_path / "visitors.csv"
    path.write_bytes(content)
    read = read_arrivals(path, PARAMETERS, np.random.default_rng(0))
    assert read.times.tolist() == [10.0, 20.0]
    assert spoken is None or read.spoken.tolist() == spoken
    assert (read.spoken >= 1.0).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no visitors"),
        ("seconds,mood\n1,good\n", "needs the column seconds, and may have spoken alone"),
        ("seconds\nnoon\n", "line 2 cannot be read: could not convert string to float: 'noon'"),
        ("seconds\n1\n-5\n", "line 3: seconds is -5; it must be from 0 to 86400"),
        ("seconds,spoken\n1,60\n", "line 2: spoken is 60; it must be from 1 to 10"),
        ("seconds,spoken\n1,2\n3\n", "line 3 cannot be read"),
    ],
)
def test_a_wrong_file_gets_one_clear_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "visitors.csv"
    path.write_text(text)
    with pytest.raises(PlanningError, match=said) as refused:
        read_arrivals(path, PARAMETERS, np.random.default_rng(0))
    assert str(refused.value).count("\n") == 0
