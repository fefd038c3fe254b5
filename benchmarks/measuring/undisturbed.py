"""Measurements that other programs of the machine have not slowed down."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.measuring.servers import Server

_Result = TypeVar("_Result")

TOLERATED: Final = 0.05
"""The share of the processors that other programs may take."""

TRIES: Final = 3


async def undisturbed(
    server: Server, measure: Callable[[], Awaitable[_Result]]
) -> tuple[_Result, float]:
    """Measure, and measure again if other programs were busy meanwhile.

    Args:
        server: that is measured; it and this process are no other programs.
        measure: does it.

    Returns:
        What came of the least disturbed try, and the share of the processors, 0 to 1, that other
        programs took then.
    """
    best: tuple[_Result, float] | None = None
    for _ in range(TRIES):
        begin, busy, own = time.perf_counter(), _busy_seconds(), _own_seconds(server)
        result = await measure()
        others = (_busy_seconds() - busy) - (_own_seconds(server) - own)
        there = (time.perf_counter() - begin) * (psutil.cpu_count() or 1)
        share = max(0.0, others / there)
        if best is None or share < best[1]:
            best = result, share
        if share <= TOLERATED:
            break
    if best is None:
        raise AssertionError("there is at least one try")
    return best


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def _own_seconds(server: Server) -> float:
    return server.cpu_seconds() + time.process_time()
