"""Sends inputs to a target, counts the outcomes, and finds the smallest failing input."""

from __future__ import annotations

import gc
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, seed, settings

from shared.conversion.characters import return_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

    from hypothesis.strategies import SearchStrategy

BATCH = 200
"""How many inputs are tried between two looks at the clock."""

MIB = 1 << 20
KIBIBYTE = 1024


class UncleanError(AssertionError):
    """An input got an answer that no input may get."""


class LimitError(Exception):
    """An input exceeded the limit of time or memory."""


@dataclass(frozen=True)
class Target:
    """A part of the service that reads untrusted bytes.

    Attributes:
        make_inputs: makes inputs, most of them nearly valid.
        open: starts what is fed, and yields what feeds it. That returns the kind of the answer and
            raises `UncleanError`, or what the target should not have let out, for a failing input.
        seconds: the most processor time for one input.
        memory_bytes: the most by which one input may make this process grow.
    """

    make_inputs: Callable[[], SearchStrategy[bytes]]
    open: Callable[[], AbstractContextManager[Callable[[bytes], str]]]
    seconds: float = 5.0
    memory_bytes: int = 64 * MIB


@dataclass
class Tally:
    """What came of one target's inputs; `failures` has the smallest of each kind."""

    tried: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    memory_bytes: int = 0
    failures: dict[str, bytes] = field(default_factory=dict)

    def fail(self, error: BaseException, data: bytes) -> None:
        trace, where = error.__traceback__, ""
        while trace is not None:
            code = trace.tb_frame.f_code
            where = f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_name}"
            trace = trace.tb_next
        kind = f"{type(error).__name__} in {where}"
        smallest = (data, self.failures.get(kind, data))
        self.failures[kind] = min(smallest, key=lambda each: (len(each), each))


def fuzz(
    target: Target,
    *,
    seconds: float = 0.0,
    first_seed: int | None = None,
    examples: int = BATCH,
    before: Callable[[bytes], object] = lambda _: None,
) -> Tally:
    """Try inputs until the time is over or one fails.

    Args:
        first_seed: of the first batch, the others count on; None for the same inputs every time.
        before: gets each input before it is tried.
    """
    tally, end, batches = Tally(), time.monotonic() + seconds, 0
    current = b""
    with _strict(lambda error: tally.fail(error, current)), target.open() as feed:

        def try_input(data: bytes) -> None:
            nonlocal current
            current = data
            before(data)
            try:
                _feed(target, feed, data, tally)
            except Exception as error:
                tally.fail(error, data)
                raise

        inputs = target.make_inputs()
        while not tally.failures and (batches == 0 or time.monotonic() < end):
            batch = settings(
                max_examples=examples,
                derandomize=first_seed is None,
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )(given(inputs)(try_input))
            try:
                (batch if first_seed is None else seed(first_seed + batches)(batch))()
            except Exception:
                # The smallest failure is raised here, and is already in the tally.
                if not tally.failures:
                    raise
            batches += 1
        # Objects that were left open report it now.
        gc.collect()
    started = KIBIBYTE * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    tally.memory_bytes = max(tally.memory_bytes, started)
    return tally


def try_one(target: Target, data: bytes) -> str:
    """Try one input; pass on whatever it raises."""
    with target.open() as feed, _at_most(target.seconds):
        return feed(data)


def _feed(target: Target, feed: Callable[[bytes], str], data: bytes, tally: Tally) -> None:
    # Pages of files that the first try has read are resident in the second.
    for _ in range(2):
        # Memory that was freed but is kept for later would hide what is taken from it.
        return_memory()
        # proc(5): where the kernel can, the peak begins anew at what is used now.
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", "ascii")
        memory, begin = _peak(), time.perf_counter()
        with _at_most(target.seconds):
            kind = feed(data)
        tally.slowest = max(tally.slowest, time.perf_counter() - begin)
        tally.memory_bytes = max(tally.memory_bytes, _peak())
        if _peak() - memory <= target.memory_bytes:
            tally.tried += 1
            tally.kinds[kind] += 1
            return
    raise LimitError(f"it took more than {target.memory_bytes >> 20} MiB of memory")


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Limit the processor time, and to ten times as much that by the clock."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise LimitError(f"it took longer than {seconds:g} s")

    timers = {
        signal.ITIMER_PROF: (signal.SIGPROF, seconds),
        signal.ITIMER_REAL: (signal.SIGALRM, 10 * seconds),
    }
    previous = {number: signal.signal(number, stop) for number, _ in timers.values()}
    for timer, (_, most) in timers.items():
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _strict(fail: Callable[[BaseException], None]) -> Iterator[None]:
    """Report errors that nobody can catch and that are otherwise only logged."""
    previous = sys.unraisablehook
    sys.unraisablehook = lambda raised: fail(raised.exc_value or UncleanError(raised.err_msg))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            yield
    finally:
        sys.unraisablehook = previous


def _peak() -> int:
    """The most memory that this process has had resident, in bytes."""
    try:
        status = Path("/proc/self/status").read_text("ascii")
    except OSError:
        return KIBIBYTE * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return KIBIBYTE * int(status.partition("VmHWM:")[2].split()[0])
