from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from shared.conversion.stopwatch import Stages, Stopwatch, ThreadWork, process_age_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def end() -> Iterator[threading.Event]:
    """Ends the threads, at the latest when the test ends."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_thread_counts_until_it_ends_although_nobody_waits_for_it(
    end: threading.Event,
) -> None:
    threads = ThreadWork()
    waiting = asyncio.create_task(threads.run(end.wait))
    await asyncio.sleep(0.05)

    waiting.cancel()
    await asyncio.wait({waiting})
    await asyncio.sleep(0.05)
    later = asyncio.create_task(threads.run(end.wait))
    await asyncio.sleep(0)
    assert threads.longest_seconds() >= 0.05

    end.set()
    await later
    for _ in range(100):
        await asyncio.sleep(0.05 if threads.longest_seconds() else 0.0)
    assert threads.longest_seconds() == 0


def test_a_stopwatch_adds_up_and_counts_failed_stages_too() -> None:
    ticks = iter([0.0, 0.001, 1.0, 1.00201, 5.0, 5.01])
    watch = Stopwatch(lambda: next(ticks))

    for _ in range(2):
        with watch.stage("read"):
            pass
    with pytest.raises(ValueError, match="x"), watch.stage("decode"):
        raise ValueError("x")

    assert watch.milliseconds() == {"read": 3.01, "decode": 10.0}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_a_process_knows_for_how_long_it_has_been_running(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(
        "7 (python -m (x) y) S" + 18 * " 0" + f" {os.sysconf('SC_CLK_TCK')} 0"
    )

    least = time.clock_gettime(time.CLOCK_BOOTTIME)
    age = process_age_ms(tmp_path / "stat")
    most = time.clock_gettime(time.CLOCK_BOOTTIME)

    assert age is not None
    assert least - 0.001 <= age / 1000 + 1 <= most + 0.001
    assert process_age_ms(tmp_path / "elsewhere") is None


def test_a_stage_is_reported_when_it_begins_and_timed_if_it_has_a_name_for_that() -> None:
    reported: list[str] = []
    stages = Stages(reported.append, Stopwatch(iter([0.0, 0.5]).__next__))

    with stages.enter("reading", timed_as="read"):
        assert reported == ["reading"]
    with stages.enter("converting"):
        assert reported == ["reading", "converting"]

    assert stages.stopwatch.milliseconds() == {"read": 500.0}
