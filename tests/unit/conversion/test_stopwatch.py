from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

from shared.conversion.stopwatch import ThreadWork


@pytest.fixture
def end() -> Iterator[threading.Event]:
    """What ends the threads, at the latest when the test ends."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_function_runs_in_a_thread_and_is_answered() -> None:
    threads = ThreadWork()

    assert await threads.run(threading.get_ident) != threading.get_ident()
    assert await threads.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 7, 0)


async def test_a_thread_counts_until_it_ends_although_nobody_waits_for_it(
    end: threading.Event,
) -> None:
    threads = ThreadWork()
    waiting = asyncio.create_task(threads.run(end.wait))
    await asyncio.sleep(0.05)

    waiting.cancel()
    await asyncio.wait({waiting})
    await asyncio.sleep(0.05)
    assert threads.longest_seconds() >= 0.05

    end.set()
    for _ in range(100):
        await asyncio.sleep(0.05 if threads.longest_seconds() else 0.0)
    assert threads.longest_seconds() == 0


async def test_the_one_that_runs_longest_is_told(end: threading.Event) -> None:
    threads = ThreadWork()
    first = asyncio.create_task(threads.run(end.wait))
    await asyncio.sleep(0.2)
    second = asyncio.create_task(threads.run(end.wait))
    await asyncio.sleep(0)

    assert threads.longest_seconds() >= 0.1

    end.set()
    await asyncio.gather(first, second)
