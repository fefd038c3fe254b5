"""The window and the push backoff of a subscription, with the figures that Google documents."""

from __future__ import annotations

import math

import pytest

from infra.local.cloud.push_flow import FlowLimits, PushFlow


def begin_all(flow: PushFlow, now: float) -> int:
    """Begin as many pushes as may begin at a moment."""
    begun = 0
    while flow.begin(now) == 0:
        begun += 1
    return begun


def test_the_window_begins_small_and_doubles_with_success() -> None:
    flow = PushFlow()
    for now, width in enumerate((5, 10, 20, 40)):
        assert begin_all(flow, now) == width
        assert flow.begin(now) == math.inf
        for _ in range(width):
            flow.end(now, acknowledged=True)


@pytest.mark.parametrize(
    ("refusals", "least", "most"),
    [(0, 0, 0), (1, 0.1, 0.2), (10, 0.4, 0.6), (50, 30, 60), (99, 60, 60)],
)
def test_negative_answers_of_ten_seconds_stop_deliveries_for_as_long_as_google_says(
    refusals: int, least: float, most: float
) -> None:
    flow = PushFlow(FlowLimits(first_window=100))
    begun = begin_all(flow, 0)
    for _ in range(refusals):
        flow.end(0, acknowledged=False)

    assert begun == 100
    assert least <= flow.backoff(0) <= most
    assert flow.backoff(10.1) == 0


def test_during_a_backoff_deliveries_come_one_at_a_time() -> None:
    flow = PushFlow()
    for _ in range(4):
        flow.begin(0)
    for _ in range(3):
        flow.end(0, acknowledged=False)
    pause = flow.backoff(0)

    assert flow.begin(0) == pause
    assert flow.begin(pause) == 0
    assert flow.begin(pause) == pytest.approx(pause)
    assert (flow.outstanding, flow.refused) == (2, 3)
