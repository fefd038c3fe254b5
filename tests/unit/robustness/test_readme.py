"""The tables of faults name tests that are there, and leave none out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FAULTS = ROOT / "tests" / "robustness" / "faults"


def rows() -> list[list[str]]:
    """Return the rows of all tables: fault, what happens, shown by."""
    _, *tables = (FAULTS / "README.md").read_text().split("| fault |")
    lines = [line for table in tables for line in table.partition("\n\n")[0].splitlines()[2:]]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named() -> set[Path]:
    paths = {path for row in rows() for path in re.findall(r"`([^`]+)`", row[-1])}
    of_root = ("tests/", "web/")
    return {ROOT / path if path.startswith(of_root) else FAULTS / path for path in paths}


def test_every_fault_names_what_happens_and_the_test_that_shows_it() -> None:
    assert len(rows()) > 120
    assert [row for row in rows() if len(row) != 3 or not all(row)] == []
    assert [path for path in named() if not path.exists()] == []


def test_every_test_of_faults_is_in_the_table() -> None:
    assert set(FAULTS.glob("test_*.py")) <= named()
