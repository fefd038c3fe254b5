from __future__ import annotations

import os
from typing import Any

import pytest

from importing.files.apart import run_apart
from importing.files.errors import VoiceFileError


def refuse(message: str) -> str:
    raise VoiceFileError(message)


def spin(count: int) -> int:
    while True:
        count += 1


def allocate(size: int) -> int:
    return len(bytearray(size))


def crash(code: int) -> None:
    os._exit(code)


def test_a_result_comes_back() -> None:
    assert run_apart(len, "four") == 4


def test_what_a_step_refuses_is_refused() -> None:
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
