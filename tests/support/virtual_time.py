"""An event loop whose clock jumps: waits of minutes pass at once, in the right order."""

from __future__ import annotations

import asyncio
import gc
import selectors
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

STUCK_SECONDS = 10.0
ENDLESS_SECONDS = 100_000.0


class StuckError(Exception):
    """Nothing is scheduled and nothing can run, or always more: the test would never end."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Stops its clock while anything (also a thread) can run, then jumps to the next event."""

    def __init__(self) -> None:
        self._now = 0.0
        self._endless_at = ENDLESS_SECONDS
        self._threads = 0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds
        if self._now > self._endless_at:
            raise StuckError("something goes on and on")

    def run_until_complete(
        self, future: Generator[Any, None, _Result] | Awaitable[_Result]
    ) -> _Result:
        self._endless_at = self._now + ENDLESS_SECONDS
        return super().run_until_complete(future)

    @property
    def has_threads(self) -> bool:
        return self._threads > 0

    def run_in_executor(  # type: ignore[override]  # only passes on
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        running = super().run_in_executor(executor, func, *args)
        self._threads += 1
        running.add_done_callback(self._thread_ended)
        return running

    def _thread_ended(self, _running: object) -> None:
        self._threads -= 1


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if timeout is not None and not self._loop.has_threads:
            self._loop.jump(timeout)
            return []
        events = super().select(STUCK_SECONDS)
        if not events:
            raise StuckError("nothing is scheduled and nothing happens")
        return events


def in_virtual_time(
    test: Callable[_Arguments, Coroutine[Any, Any, None]],
) -> Callable[_Arguments, None]:
    """Run an asynchronous test in its own loop, whose clock jumps."""

    @wraps(test)
    def run(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*arguments, **named))

    return run


@contextmanager
def no_lost_errors() -> Iterator[None]:
    """Fail if an error of a task inside is never retrieved, which asyncio logs with its trace."""
    lost: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: lost.append(repr(context)))
    yield
    gc.collect()
    assert not lost, lost


async def settle() -> None:
    """Let everything run that can run without waiting."""
    for _ in range(50):
        await asyncio.sleep(0)
