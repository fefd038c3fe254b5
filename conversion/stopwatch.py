"""How long the stages of a conversion take, and how long a process has been running."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The field "starttime", counted from the field after the command's name (proc_pid_stat(5)).
_START: Final = 19

MOST_LAPS: Final = 100
"""How many laps a stopwatch remembers; a recording of minutes has its stages many times."""


class Lap(NamedTuple):
    """One time that a stage took place, in seconds of the stopwatch's clock."""

    stage: str
    begin: float
    seconds: float


class Stopwatch:
    """Adds up the milliseconds of named stages.

    Args:
        seconds: a clock that never goes back.

    Attributes:
        laps: the stages one by one, in the order in which they ended.
    """

    def __init__(self, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self._milliseconds: dict[str, float] = {}
        self.laps: list[Lap] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside to a stage."""
        begin = self._seconds()
        try:
            yield
        finally:
            elapsed = self._seconds() - begin
            self._milliseconds[name] = self._milliseconds.get(name, 0.0) + elapsed * 1000
            if len(self.laps) < MOST_LAPS:
                self.laps.append(Lap(name, begin, elapsed))

    def milliseconds(self) -> dict[str, float]:
        """Return the time of each stage so far, to a hundredth of a millisecond."""
        return {name: round(value, 2) for name, value in self._milliseconds.items()}


class Stages:
    """Says which stage of a conversion begins and measures how long it takes.

    Args:
        report: is called with the name of every stage that begins.
        stopwatch: measures the stages.
    """

    def __init__(self, report: Callable[[str], None], stopwatch: Stopwatch | None = None) -> None:
        self._report = report
        self.stopwatch = stopwatch or Stopwatch()

    def enter(self, name: str, *, timed_as: str | None = None) -> AbstractContextManager[None]:
        """Begin a stage; the time inside the context counts as that stage's.

        Args:
            name: of the stage, as it is reported.
            timed_as: its name on the stopwatch; None if its parts are measured one by one.
        """
        self._report(name)
        return nullcontext() if timed_as is None else self.stopwatch.stage(timed_as)


def process_age_ms(status: Path = Path("/proc/self/stat")) -> float | None:
    """Measure for how many milliseconds this process has been running; None where this is unknown.

    Args:
        status: the file in which Linux tells it, to a hundredth of a second.
    """
    if not status.exists():
        return None
    ticks = float(status.read_text().rpartition(")")[2].split()[_START])
    started = ticks / os.sysconf("SC_CLK_TCK")
    return round((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000)
