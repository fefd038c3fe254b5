"""The search for leaks finds them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.faults.leaks import State, state_of

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = State({"threads": 40, "tasks": 20, "file descriptors": 100, "memory (MB)": 300})


def later(**changes: float) -> State:
    names = {"threads": "threads", "fds": "file descriptors", "memory": "memory (MB)"}
    return State({**BEFORE.counts, **{names[name]: value for name, value in changes.items()}})


def test_what_stays_within_a_twentieth_is_no_leak() -> None:
    assert later(threads=42, fds=105, memory=315).grown_since(BEFORE) == []


def test_what_grows_by_more_is_named() -> None:
    assert later(fds=106).grown_since(BEFORE) == ["file descriptors have grown from 100 to 106"]
    assert later(threads=57).grown_since(BEFORE) == ["threads have grown from 40 to 57"]
    assert later(memory=317).grown_since(BEFORE) == ["memory (MB) have grown from 300 to 317"]


async def test_tasks_descriptors_and_files_are_counted(tmp_path: Path) -> None:
    before = state_of(tmp_path)
    task = asyncio.create_task(asyncio.sleep(60))
    with (tmp_path / "kept").open("w"):
        after = state_of(tmp_path)
    task.cancel()

    grown = {name for name in before.counts if after.counts[name] > before.counts[name]}
    assert {"tasks", "file descriptors", "files"} <= grown
