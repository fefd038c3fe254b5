"""Measurements of the stages of a conversion, of its threads, and of the age of a process."""

from __future__ import annotations

import asyncio
import contextvars
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# The field "starttime", counted from the field after the command's name (proc_pid_stat(5)).
_START: Final = 19

MOST_LAPS: Final = 100  # a recording of minutes has its stages many times


class Lap(NamedTuple):
    """One run of a stage, in seconds of the stopwatch's clock."""

    stage: str
    begin: float
    seconds: float


class Stopwatch:
    """The milliseconds of named stages, and their laps in the order of their ends."""

    def __init__(self, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self._milliseconds: dict[str, float] = {}
        self.laps: list[Lap] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = self._seconds()
        try:
            yield
        finally:
            elapsed = self._seconds() - begin
            self._milliseconds[name] = self._milliseconds.get(name, 0.0) + elapsed * 1000
            if len(self.laps) < MOST_LAPS:
                self.laps.append(Lap(name, begin, elapsed))

    def milliseconds(self) -> dict[str, float]:
        return {name: round(value, 2) for name, value in self._milliseconds.items()}


class Stages:
    """The stages of a conversion, each reported when it begins, and measured."""

    def __init__(self, report: Callable[[str], None], stopwatch: Stopwatch | None = None) -> None:
        self._report = report
        self.stopwatch = stopwatch or Stopwatch()

    def enter(self, name: str, *, timed_as: str | None = None) -> AbstractContextManager[None]:
        """Begin a stage, and measure it inside the context if it has a name on the stopwatch."""
        self._report(name)
        return nullcontext() if timed_as is None else self.stopwatch.stage(timed_as)


def process_age_ms(status: Path = Path("/proc/self/stat")) -> float | None:
    """Measure the age of this process in milliseconds; None where Linux's `status` is missing."""
    if not status.exists():
        return None
    ticks = float(status.read_text().rpartition(")")[2].split()[_START])
    started = ticks / os.sysconf("SC_CLK_TCK")
    return round((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000)


_P = ParamSpec("_P")
_T = TypeVar("_T")


class ThreadWork:
    """Threads that run functions, and go on to their ends when the caller is cancelled."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(16, "conversion")
        self._started: dict[Future[Any], float] = {}

    async def run(
        self, function: Callable[_P, _T], /, *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        """Run a function in a thread, with the context of the caller."""
        context = contextvars.copy_context()
        work = partial(context.run, function, *arguments, **named)
        future: Future[_T] = self._executor.submit(work)
        self._started[future] = time.monotonic()
        # Called in the thread; one operation on a dictionary needs no lock.
        future.add_done_callback(lambda done: self._started.pop(done, None))
        return await asyncio.wrap_future(future)

    def longest_seconds(self) -> float:
        """Return the age of the oldest call that runs; 0 if none runs."""
        now = time.monotonic()
        return now - min(tuple(self._started.values()), default=now)
