"""How long the stages of a conversion take."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Stopwatch:
    """Adds up the milliseconds of named stages.

    Args:
        seconds: a clock that never goes back.
    """

    def __init__(self, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self._milliseconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside to a stage."""
        begin = self._seconds()
        try:
            yield
        finally:
            elapsed = (self._seconds() - begin) * 1000
            self._milliseconds[name] = self._milliseconds.get(name, 0.0) + elapsed

    def milliseconds(self) -> dict[str, float]:
        """Return the time of each stage so far, to a hundredth of a millisecond."""
        return {name: round(value, 2) for name, value in self._milliseconds.items()}
