"""One execution of the trainer as a job: trains what waits, and ends."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from functions.train.runner import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from functions.train.runner import Runner

LOOK_AGAIN_SECONDS: Final = 5.0
RESTARTED_PATIENCE_SECONDS: Final = LEASE_SECONDS + 15.0
"""A job that was killed is started again before the lease that it held has ended."""


async def train_all(
    runner: Runner,
    *,
    begin_seconds: float,
    patience_seconds: float,
    now: Callable[[], float] = time.monotonic,
) -> int:
    """Train characters one by one until none waits; return how many were looked after.

    Args:
        runner: trains them.
        begin_seconds: for how long another training may begin; the sweep starts another job for
            what is left then.
        patience_seconds: for how long to look again when none waits.
        now: a clock in seconds that never goes back.

    Raises:
        PassingError: the store or a bucket does not answer; the job is to be started again.
    """
    began, trained = now(), 0
    idle_since = began
    while now() - began < begin_seconds:
        if await runner.train_next():
            trained, idle_since = trained + 1, now()
        elif now() - idle_since < patience_seconds:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        else:
            break
    # The recordings of those that are ready now.
    await runner.cleaner.clean()
    return trained
