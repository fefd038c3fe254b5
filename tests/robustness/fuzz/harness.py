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
from typing import TYPE_CHECKING, Any, Protocol

from hypothesis import HealthCheck, Phase, given, seed, settings

from shared.conversion.characters import return_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

    from hypothesis.strategies import SearchStrategy

BATCH = 200
"""How many inputs are tried between two looks at the clock."""

KIBIBYTE = 1024
_LONGEST_COMPLAINT = 300


class UncleanError(AssertionError):
    """An input got an answer that no input may get."""


class LimitError(Exception):
    """An input exceeded the limit of time or memory."""


class Target(Protocol):
    """A part of the service that reads untrusted bytes."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def inputs(self) -> SearchStrategy[bytes]:
        """Makes inputs, most of them nearly valid."""
        ...

    @property
    def seconds(self) -> float:
        """How long one input may take."""
        ...

    @property
    def memory_bytes(self) -> int:
        """By how much one input may make this process grow."""
        ...

    def open(self) -> AbstractContextManager[Callable[[bytes], str]]:
        """Start what is fed; yield what feeds it.

        That returns the kind of the answer and raises `UncleanError`, or whatever else the target
        should not have let out, for an input that fails.
        """
        ...


@dataclass
class Tally:
    """What came of one target's inputs.

    Attributes:
        slowest: the longest that one took, in seconds.
    """

    target: str
    tried: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    memory_bytes: int = 0
    failures: dict[str, bytes] = field(default_factory=dict)
    complaints: dict[str, str] = field(default_factory=dict)
    current: bytes = b""

    def as_json(self) -> dict[str, Any]:
        """Return everything but the failing inputs."""
        return {
            "target": self.target,
            "tried": self.tried,
            "kinds": {str(kind): count for kind, count in self.kinds.items()},
            "slowest": self.slowest,
            "memory_bytes": self.memory_bytes,
            "failures": sorted(self.failures),
        }

    def fail(self, error: BaseException) -> None:
        """Note that the current input fails, if it is the smallest that fails in this way."""
        kind, data = _kind_of(error), self.current
        known = self.failures.get(kind)
        if known is None or (len(data), data) < (len(known), known):
            self.failures[kind] = data
            self.complaints[kind] = str(error)[:_LONGEST_COMPLAINT]


def fuzz(
    target: Target,
    *,
    seconds: float = 0.0,
    first_seed: int | None = None,
    examples: int = BATCH,
    before: Callable[[bytes], None] = lambda _: None,
) -> Tally:
    """Try inputs until the time is over or one fails.

    Args:
        first_seed: of the first batch, the others count on; None for the same inputs every time.
    """
    tally, end, batches = Tally(target.name), time.monotonic() + seconds, 0
    with _strict(tally), target.open() as feed:
        feeding = _Feeding(target, feed, tally, before)
        while not tally.failures and (batches == 0 or time.monotonic() < end):
            feeding.run_batch(examples, None if first_seed is None else first_seed + batches)
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


@dataclass(frozen=True)
class _Feeding:
    """One target, and what is known of its inputs."""

    target: Target
    feed: Callable[[bytes], str]
    tally: Tally
    before: Callable[[bytes], None]

    def run_batch(self, examples: int, number: int | None) -> None:
        @settings(
            max_examples=examples,
            derandomize=number is None,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(self.target.inputs)
        def batch(data: bytes) -> None:
            self.tally.current = data
            self.before(data)
            try:
                self._try(data)
            except Exception as error:
                self.tally.fail(error)
                raise

        try:
            (batch if number is None else seed(number)(batch))()
        except Exception:
            # The smallest failure is raised here, and is already in the tally.
            if not self.tally.failures:
                raise

    def _try(self, data: bytes) -> None:
        kind, grown = self._feed(data)
        if grown > self.target.memory_bytes:
            # Pages of files that the first try has read are resident now, and count no more.
            kind, grown = self._feed(data)
        if grown > self.target.memory_bytes:
            raise LimitError(f"it took more than {self.target.memory_bytes >> 20} MiB of memory")
        self.tally.tried += 1
        self.tally.kinds[kind] += 1

    def _feed(self, data: bytes) -> tuple[str, int]:
        """Return the kind of the answer, and by how many bytes the process grew meanwhile."""
        tally = self.tally
        _forget_peak()
        memory, begin = _peak(), time.perf_counter()
        with _at_most(self.target.seconds):
            kind = self.feed(data)
        tally.slowest = max(tally.slowest, time.perf_counter() - begin)
        tally.memory_bytes = max(tally.memory_bytes, _peak())
        return kind, _peak() - memory


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise LimitError(f"it took longer than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def _strict(tally: Tally) -> Iterator[None]:
    """Count errors as failures that nobody can catch and that are otherwise only logged."""
    previous = sys.unraisablehook

    def note(unraisable: sys.UnraisableHookArgs) -> None:
        tally.fail(unraisable.exc_value or UncleanError(unraisable.err_msg))

    sys.unraisablehook = note
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            yield
    finally:
        sys.unraisablehook = previous


def _forget_peak() -> None:
    # Memory that was freed but is kept for later would hide what is taken from it.
    return_memory()
    # proc(5): where the kernel can, the peak begins anew at what is used now.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def _peak() -> int:
    """The most memory that this process has had resident, in bytes."""
    try:
        status = Path("/proc/self/status").read_text("ascii")
    except OSError:
        return KIBIBYTE * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return KIBIBYTE * int(status.partition("VmHWM:")[2].split()[0])


def _kind_of(error: BaseException) -> str:
    trace = error.__traceback__
    where = ""
    while trace is not None:
        code, line = trace.tb_frame.f_code, trace.tb_lineno
        where = f"{code.co_filename.rpartition('/')[2]}:{line} {code.co_name}"
        trace = trace.tb_next
    return f"{type(error).__name__} in {where}"
