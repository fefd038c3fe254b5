"""A short run of the fuzzer, with the same inputs every time, and tests of the fuzzer itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.robustness.fuzz.__main__ import search_properties, table
from tests.robustness.fuzz.current import read_current
from tests.robustness.fuzz.harness import UncleanError, fuzz, try_one
from tests.robustness.fuzz.targets import targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
CASES = sorted((ROOT / "tests" / "robustness" / "fuzz" / "cases").glob("*/*"))
"""Inputs that were not answered cleanly once, by target."""

EXAMPLES = {"decoder": 120, "push": 150, "multipart": 150}


@pytest.mark.parametrize("name", targets())
def test_every_input_ends_in_a_result_or_a_clean_error(name: str) -> None:
    tally = fuzz(targets()[name], examples=EXAMPLES.get(name, 100))

    assert tally.failures == {}
    assert tally.complaints == {}
    assert tally.tried >= 100
    assert len(tally.kinds) > 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}: {case.name}")
def test_what_was_found_once_is_answered_cleanly_now(case: Path) -> None:
    assert try_one(targets()[case.parent.name], case.read_bytes()) in {"refused", "result"}


def test_the_tests_draw_the_same_inputs_every_time() -> None:
    def drawn() -> list[bytes]:
        found: list[bytes] = []

        @given(st.binary())
        def draw(data: bytes) -> None:
            found.append(data)

        draw()
        return found

    assert drawn() == drawn()


PROPERTY = """
from hypothesis import given, strategies as st
@given(st.integers(0, 1000))
def test_numbers_are_small(number):
    assert number < 900
def test_something_else():
    assert False
"""


def test_the_fuzzer_also_draws_inputs_for_the_tests_that_draw_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_property.py").write_text(PROPERTY)

    assert not search_properties(1, (str(tmp_path),))

    told = capfd.readouterr().out
    assert "number=" in told
    assert "1 failed, 1 deselected" in told


@dataclass
class Brittle:
    """Fails in the given way for inputs that contain an X."""

    fail: Callable[[], None]
    name: str = "brittle"
    seconds: float = 5.0
    memory_bytes: int = 16 << 20

    inputs = st.lists(st.sampled_from((b"a", b"X", b"c"))).map(b"".join)

    @contextmanager
    def open(self) -> Iterator[Callable[[bytes], str]]:
        yield self._feed

    def _feed(self, data: bytes) -> str:
        if b"X" in data:
            self.fail()
        return "fine"


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
    tally = fuzz(Brittle(fail, seconds=seconds))

    assert [each.partition(" ")[0] for each in tally.failures] == [kind]
    assert set(tally.failures.values()) == {b"X"}


CRASH = """
import os, sys
from pathlib import Path
from tests.robustness.fuzz.current import noted
with noted(Path(sys.argv[1])) as note:
    note(b"harmless")
    note(b"deadly")
    os.abort()
"""


def test_a_process_that_crashes_leaves_the_input_it_crashed_with(tmp_path: Path) -> None:
    current = tmp_path / "current"

    ended = subprocess.run([sys.executable, "-c", CRASH, current], cwd=ROOT, check=False)

    assert ended.returncode == -signal.SIGABRT
    assert read_current(current) == b"deadly"


def test_an_input_that_failed_fails_again_when_it_is_replayed() -> None:
    with pytest.raises(UncleanError, match="answered 500"):
        try_one(Brittle(raise_unclean), b"aXa")
    assert try_one(Brittle(raise_unclean), b"aa") == "fine"


def test_the_table_shows_what_was_found_for_every_target() -> None:
    tally = fuzz(Brittle(raise_unclean))

    shown = table([tally.as_json()], seed=1)

    assert [list(column.cells) for column in shown.columns][:1] == [["brittle"]]
    assert [list(column.cells) for column in shown.columns if column.header == "failures"] == [
        ["1"]
    ]
