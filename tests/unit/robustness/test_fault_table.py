from __future__ import annotations

import re
from pathlib import Path

from tests.robustness.measurement.fault_table import FOLDER, OWN, PAGE, read_sections, with_faults

ROOT = Path(__file__).parents[3]
NAMED = {
    test for section in read_sections() for fault in section["faults"] for test in fault["tests"]
}


def functions_of(path: Path) -> set[str]:
    return set(re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))


def test_the_tables_on_the_page_are_those_that_the_command_writes() -> None:
    assert with_faults(PAGE.read_text()) == PAGE.read_text()
    assert all(fault["fault"] and fault["end"] for s in read_sections() for fault in s["faults"])


def test_every_fault_names_tests_that_are_there() -> None:
    for name in NAMED:
        file, _, function = name.partition("::")
        assert (ROOT / file).exists(), name
        assert not function or function in functions_of(ROOT / file), name
    assert all(fault["tests"] for section in read_sections() for fault in section["faults"])


def test_every_test_of_faults_is_named_by_a_fault() -> None:
    tests = {
        f"{OWN}{path.name}::{function}"
        for path in FOLDER.glob("test_*.py")
        for function in functions_of(path)
    }
    assert sorted(tests - NAMED) == []
