"""Work in threads: it cannot be stopped, so somebody must know how long it has been running."""

from __future__ import annotations

import asyncio
import contextvars
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Threads:
    """Runs functions in threads.

    Whoever waits for a function may be cancelled; its thread goes on to the function's end, and
    takes a processor until then.

    Args:
        most: how many run at once; further ones wait.
    """

    def __init__(self, most: int = 16) -> None:
        self._executor = ThreadPoolExecutor(most, "conversion")
        self._started: dict[Future[Any], float] = {}

    async def run(
        self, function: Callable[_P, _T], /, *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        """Run a function in a thread, with the context of the caller.

        Raises:
            Exception: what the function raises.
        """
        context = contextvars.copy_context()
        work = partial(context.run, function, *arguments, **named)
        future: Future[_T] = self._executor.submit(work)
        self._started[future] = time.monotonic()
        # Called in the thread; one operation on a dictionary needs no lock.
        future.add_done_callback(lambda done: self._started.pop(done, None))
        return await asyncio.wrap_future(future)

    def longest_seconds(self) -> float:
        """Measure for how long the oldest call has been running; 0 if none runs."""
        now = time.monotonic()
        return now - min(tuple(self._started.values()), default=now)
