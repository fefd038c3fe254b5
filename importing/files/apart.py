"""Runs a step of the import in a process of its own, with limits.

A graph of standard operators alone can still ask for all the memory there is, compute for ever, or
meet a fault of the runtime. Then that process ends, and the import says so.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, TypeVar

from importing.files.errors import VoiceFileError

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 900
"""Of processor time; a voice of full size takes about 15."""
WAITING_SECONDS = 300
"""How much longer a step may take by the clock: the machine may be busy."""
MEMORY_BYTES = 24 << 30
"""Of addresses, of which the runtime reserves more than it uses."""

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def run_apart(
    step: Callable[[_Argument], _Result],
    argument: _Argument,
    *,
    seconds: int = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
) -> _Result:
    """Run a step.

    Args:
        step: a function of a module.
        argument: what it is given.
        seconds: of processor time that it may take.
        memory_bytes: of addresses that it may use.

    Raises:
        VoiceFileError: the step raised it, or its process went over a limit or crashed.
        RuntimeError: no process starts, because the running script has no `__main__` guard.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        1, context, _begin, (seconds, memory_bytes, seconds + WAITING_SECONDS)
    ) as processes:
        try:
            # The new process imports the script that is running before it does anything.
            processes.submit(int).result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "the process for a step of the import does not start; a script that imports a"
                ' voice must do so below `if __name__ == "__main__":`.'
            ) from error
        try:
            return processes.submit(step, argument).result()
        except BrokenProcessPool as error:
            raise VoiceFileError(
                f"expected a graph that runs within {seconds} s and"
                f" {memory_bytes >> 30} GiB of memory, found one that does not, or that crashes"
                " the runtime."
            ) from error
        except MemoryError as error:
            raise VoiceFileError(
                f"expected a graph that runs within {memory_bytes >> 30} GiB of memory, found a"
                " larger one."
            ) from error


def _begin(seconds: int, memory_bytes: int, wall_seconds: int) -> None:
    # By a thread of the interpreter's own, so that it also ends a process that holds the lock.
    faulthandler.dump_traceback_later(wall_seconds, exit=True)
    limit(seconds, memory_bytes)


def limit(seconds: int, memory_bytes: int) -> None:
    """Limit this process, where the system can.

    Args:
        seconds: of processor time.
        memory_bytes: of addresses.
    """
    try:
        # Imported here, because Windows has no such limits; the import goes on without them.
        import resource  # noqa: PLC0415
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
