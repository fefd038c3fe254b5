"""The benchmark of waiting clients measures clients that wait."""

from __future__ import annotations

import pytest

from tools.benchmarks.waiters import Measured, ratios


def a_crowd(waiting: int, *answers: float | str) -> Measured:
    return Measured(
        clients=100,
        waiting=waiting,
        arrival_seconds=1.0,
        arrival_cpu=2.0,
        streams=1,
        threads=8,
        threads_before=8,
        memory=110.0,
        growth=10.0,
        answers=answers,
        breaks=0,
    )


def test_what_a_client_needs_is_told_of_clients_that_wait() -> None:
    assert ratios([a_crowd(100, 4.5)])["streams per client"] == 0.01


@pytest.mark.parametrize("crowd", [a_crowd(0), a_crowd(100, "HTTP/1.1 421 Misdirected Request")])
def test_clients_that_do_not_wait_are_no_figure(crowd: Measured) -> None:
    with pytest.raises(RuntimeError, match="100 clients were too many"):
        ratios([crowd])
