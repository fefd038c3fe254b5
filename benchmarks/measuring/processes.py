"""The processor time of processes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence


def family(pid: int) -> Sequence[psutil.Process]:
    """Return a process and those that it has started and that still run."""
    first = psutil.Process(pid)
    return (first, *first.children(recursive=True))


def cpu_seconds(pid: int) -> float:
    """Sum up the processor time of a process and its children, also of children that have ended."""
    total = 0.0
    for process in family(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            own = times.user + times.system
            total += own + times.children_user + times.children_system
    return total
