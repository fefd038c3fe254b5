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
def check(tmp_path: Path) -> Callable[[dict[str, list[str]]], tuple[int, list[str], str]]:
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


def test_every_session_runs_once(
    check: Callable[[dict[str, list[str]]], tuple[int, list[str], str]],
) -> None:
    status, calls, said = check({})

    sessions = ["lint", "terraform", "image", "tests_training", "browser", "tests"]
    assert calls == [*(f"-s {session}" for session in sessions), GUARD]
    assert status == 0
    assert "laky" not in said


def test_a_test_that_fails_is_run_again_alone_and_named_as_flaky(
    check: Callable[[dict[str, list[str]]], tuple[int, list[str], str]],
) -> None:
    status, calls, said = check({"-s tests": ["tests/a.py::test_b"]})

    assert calls.count("-s tests") == 1
    assert AGAIN in calls
    assert status == 0
    assert "`tests/a.py::test_b`" in said.partition("Flaky;")[2]


def test_a_test_that_fails_twice_fails_the_run(
    check: Callable[[dict[str, list[str]]], tuple[int, list[str], str]],
) -> None:
    status, calls, said = check({"-s tests": ["tests/a.py::test_b"], AGAIN: ["tests/a.py::test_b"]})

    assert status == 1
    assert "tests: FAILED" in said
    assert calls[-1] == GUARD, "the other sessions run all the same"


def test_the_pages_tests_are_run_again_with_lint(
    check: Callable[[dict[str, list[str]]], tuple[int, list[str], str]],
) -> None:
    status, calls, said = check({"-s lint": []})

    assert calls.count("-s lint") == 2
    assert status == 1, "it fails twice"
    assert "lint: FAILED" in said


def test_the_end_repeats_what_a_failed_session_wrote(
    check: Callable[[dict[str, list[str]]], tuple[int, list[str], str]],
) -> None:
    _, _, said = check({"-s terraform": []})

    assert said.count("what -s terraform found") == 2
    assert "terraform failed; the end of what it wrote:\nwhat -s terraform found" in said


@pytest.mark.parametrize("session", ["terraform", "image"])
def test_what_is_no_test_is_not_repeated(
    session: str, check: Callable[[dict[str, list[str]]], tuple[int, list[str], str]]
) -> None:
    status, calls, _ = check({f"-s {session}": []})

    assert calls.count(f"-s {session}") == 1
    assert status == 1
