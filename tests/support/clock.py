"""Clocks that stand still until a test moves them, and the time of a virtual loop."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from tests.support.voices import NOW


class Clock:
    """Seconds of a monotonic clock; set `seconds` to move it."""

    def __init__(self, seconds: float = 1000.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


class Calendar:
    """A time of day; set `time` to move it."""

    def __init__(self, time: datetime = datetime(2026, 11, 23, 12, tzinfo=UTC)) -> None:
        self.time = time

    def __call__(self) -> datetime:
        return self.time

    def advance(self, time: timedelta) -> None:
        self.time += time


def loop_seconds() -> float:
    return asyncio.get_running_loop().time()


def loop_now() -> datetime:
    """Return the time of day that belongs to the loop's time."""
    return NOW + timedelta(seconds=loop_seconds())
