from __future__ import annotations

import os
import sys
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from tools.bundles import files
from tools.bundles.files import VoiceFileError, limit, read_file, run_apart

if TYPE_CHECKING:
    from pathlib import Path

MOST = 64 << 20


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "voice.onnx"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # it takes no room on the disk

    tracemalloc.start()
    with pytest.raises(VoiceFileError, match=f"expected at most {MOST} bytes, found more"):
        read_file(path, MOST)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < MOST / 10


def refuse(message: str) -> str:
    raise VoiceFileError(message)


def spin(count: int) -> int:
    while True:
        count += 1


def allocate(size: int) -> int:
    return len(bytearray(size))


def crash(code: int) -> None:
    os._exit(code)


def test_a_step_s_result_or_refusal_comes_back() -> None:
    assert run_apart(len, "four") == 4
    with pytest.raises(VoiceFileError, match=r"expected a voice, found none\."):
        run_apart(refuse, "expected a voice, found none.")


@pytest.mark.parametrize(
    ("step", "argument", "message"),
    [
        (spin, 0, "expected a graph that runs within 1 s"),
        (allocate, 5 << 30, "found a larger one"),
        (crash, 3, "crashes the runtime"),
    ],
)
def test_a_step_that_goes_too_far_ends_alone(step: Any, argument: int, message: str) -> None:
    with pytest.raises(VoiceFileError, match=message):
        run_apart(step, argument, seconds=1, memory_bytes=4 << 30)


def test_a_step_that_only_waits_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WAITING_SECONDS", 1)

    with pytest.raises(VoiceFileError, match="expected a graph that runs within 2 s"):
        run_apart(time.sleep, 600, seconds=2)


def test_where_a_system_has_no_limits_a_step_runs_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)

    limit(1, 1)
