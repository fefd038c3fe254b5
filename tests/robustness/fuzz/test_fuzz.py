"""A short run of the fuzzer, with the same inputs every time, and tests of the fuzzer itself."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st

from tests.robustness.fuzz.harness import MIB, Target, UncleanError, fuzz, try_one
from tests.robustness.fuzz.targets import targets

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = sorted((Path(__file__).parent / "cases").glob("*/*"))
"""Inputs that were not answered cleanly once, by target."""


@pytest.mark.parametrize("name", targets())
def test_every_input_ends_in_a_result_or_a_clean_error(name: str) -> None:
    tally = fuzz(targets()[name], examples=60)

    assert tally.failures == {}
    assert tally.tried >= 60
    assert len(tally.kinds) > 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}: {case.name}")
def test_what_was_found_once_is_answered_cleanly_now(case: Path) -> None:
    assert try_one(targets()[case.parent.name], case.read_bytes()) in {"refused", "result"}


def brittle(fail: Callable[[], None], seconds: float = 5.0) -> Target:
    """A target that fails in the given way for inputs that contain an X."""

    def feed(data: bytes) -> str:
        if b"X" in data:
            fail()
        return "fine"

    inputs = st.lists(st.sampled_from((b"a", b"X", b"c"))).map(b"".join)
    return Target(lambda: inputs, lambda: nullcontext(feed), seconds, 16 * MIB)


def raise_unclean() -> None:
    raise UncleanError("answered 500")


def loop_for_ever() -> None:
    while True:
        pass


def take_much_memory() -> None:
    bytearray(b"x") * (64 << 20)


def leave_open() -> None:
    tempfile.TemporaryFile().write(b"")  # noqa: SIM115 - that is the mistake


@pytest.mark.parametrize(
    ("fail", "seconds", "kind"),
    [
        (raise_unclean, 5.0, "UncleanError"),
        (loop_for_ever, 0.01, "LimitError"),
        (take_much_memory, 5.0, "LimitError"),
        (leave_open, 5.0, "ResourceWarning"),
    ],
)
def test_an_input_that_fails_is_found_and_minimised(
    fail: Callable[[], None], seconds: float, kind: str
) -> None:
    tally = fuzz(brittle(fail, seconds))

    assert {each.partition(" ")[0] for each in tally.failures} == {kind}
    assert set(tally.failures.values()) == {b"X"}
