"""The search for leaks finds them."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from tests.robustness.measurement.leaks import State, state_of

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = State(
    {
        "threads outside of pools": 20,
        "threads in pools": 40,
        "places for threads in pools": 60,
        "tasks": 20,
        "file descriptors": 100,
        "memory (MB)": 300,
        "memory in use (MB)": 300,
    }
)


def later(**changes: float) -> State:
    names = {
        "threads": "threads outside of pools",
        "pooled": "threads in pools",
        "places": "places for threads in pools",
        "fds": "file descriptors",
        "memory": "memory (MB)",
        "used": "memory in use (MB)",
    }
    return State({**BEFORE.counts, **{names[name]: value for name, value in changes.items()}})


def test_a_pool_that_fills_is_no_leak_but_another_pool_is() -> None:
    assert later(pooled=60).grown_since(BEFORE) == []
    assert later(pooled=64, places=64).grown_since(BEFORE) == [
        "places for threads in pools have grown from 60 to 64"
    ]


def test_what_grows_by_more_is_named() -> None:
    assert later(fds=106).grown_since(BEFORE) == ["file descriptors have grown from 100 to 106"]
    assert later(threads=22).grown_since(BEFORE) == [
        "threads outside of pools have grown from 20 to 22"
    ]
    assert later(used=317).grown_since(BEFORE) == ["memory in use (MB) have grown from 300 to 317"]
    assert later(memory=376).grown_since(BEFORE) == ["memory (MB) have grown from 300 to 376"]


async def test_tasks_descriptors_and_files_are_counted(tmp_path: Path) -> None:
    state_of(tmp_path)  # the first look imports and allocates
    before = state_of(tmp_path)
    task = asyncio.create_task(asyncio.sleep(60))
    kept = [np.ones(8_000_000), [object() for _ in range(60_000)]]
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    with (tmp_path / "kept").open("w"), ThreadPoolExecutor(3) as pool:
        pool.submit(ended.wait)
        thread.start()
        after = state_of(tmp_path)
        ended.set()
    thread.join()
    task.cancel()

    more = {name: after.counts[name] - before.counts[name] for name in before.counts}
    assert min(more[name] for name in ("tasks", "file descriptors", "files")) > 0
    # 64 MB, and what else the process of the tests has begun to use meanwhile.
    assert 60 <= more["memory in use (MB)"] <= 100, len(kept)
    assert 55 <= more["thousands of objects"] <= 100
    assert more["threads outside of pools"] == more["threads in pools"] == 1
    assert more["places for threads in pools"] == 3
