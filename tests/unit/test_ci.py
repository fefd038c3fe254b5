"""What the run of all sessions does when one of them fails."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[[dict[str, list[str]]], tuple[int, list[str], str]]

CHECK = Path(__file__).parents[2] / ".ci" / "check"

NOX = """#!/usr/bin/env python3
import json, pathlib, sys
here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
with open(here / "calls", "a") as file:
    file.write(json.dumps(arguments) + "\\n")
plan = json.loads((here / "plan").read_text())
key = " ".join(arguments)
if key in plan:
    print("what", key, "found")
    cache = here / ".pytest_cache/v/cache"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "lastfailed").write_text(json.dumps({test: True for test in plan[key]}))
    sys.exit(1)
"""
AGAIN = "-s tests -- --last-failed --last-failed-no-failures none -n 0"
GUARD = "-s bench -- guard"


@pytest.fixture
def check(tmp_path: Path) -> Check:
    (tmp_path / ".ci").mkdir()
    shutil.copy(CHECK, tmp_path / ".ci" / "check")
    (tmp_path / "nox").write_text(NOX)
    (tmp_path / "nox").chmod(0o755)

    def run(plan: dict[str, list[str]]) -> tuple[int, list[str], str]:
        """Run everything; the plan says which commands fail, and which tests of them."""
        (tmp_path / "plan").write_text(json.dumps(plan))
        done = subprocess.run(
            [tmp_path / ".ci" / "check", tmp_path / "nox"],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = (tmp_path / "calls").read_text().splitlines()
        return done.returncode, [" ".join(json.loads(line)) for line in lines], done.stdout

    return run


def test_every_session_runs_once_and_a_test_that_fails_again_alone_as_flaky(check: Check) -> None:
    status, calls, said = check({"-s tests": ["tests/a.py::test_b"]})

    assert set(calls[:3]) == {"-s lint", "-s terraform", "-s tests_training"}
    assert calls[3:] == ["-s image", "-s browser", "-s tests", AGAIN, GUARD]
    assert status == 0
    assert "`tests/a.py::test_b`" in said.partition("Flaky;")[2]


def test_a_test_that_fails_twice_fails_the_run(check: Check) -> None:
    status, calls, said = check({"-s tests": ["tests/a.py::test_b"], AGAIN: ["tests/a.py::test_b"]})

    assert status == 1
    assert "tests: FAILED" in said
    assert calls[-1] == GUARD, "the other sessions run all the same"


def test_a_session_that_fails_fails_the_run_and_its_words_are_repeated_at_the_end(
    check: Check,
) -> None:
    status, calls, said = check({"-s lint": [], "-s image": []})

    assert (status, calls.count("-s lint"), calls.count("-s image")) == (1, 2, 1)
    for session in ("lint", "image"):
        assert f"{session} failed; the end of what it wrote:\nwhat -s {session} found" in said
