from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.measuring.machine import ROOT, commit, describe_machine, processor_name
from benchmarks.measuring.report import Report, Table, shown

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.measuring.report import Cell

MACHINE: dict[str, Cell] = {"processor": "Abacus 3", "cores": 2}
TABLE = Table(
    "Time of a stage",
    ("stage", "time (ms)", "calls"),
    (("decode", 12.345, 1200), ("network", None, 7)),
)


def a_report() -> Report:
    return Report("convert", (TABLE,), {"real-time factor": 0.0213}, {"decode": 0.4}, MACHINE)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (12_345, "12,345"),
        (0.0, "0"),
        (0.01234, "0.0123"),
        (0.1234, "0.123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (-1234.5, "-1,234"),
        ("Uvicorn", "Uvicorn"),
    ],
)
def test_a_number_is_shown_with_three_significant_digits(
    cell: str | float | None, text: str
) -> None:
    assert shown(cell) == text


def test_a_table_is_markdown_with_numbers_to_the_right() -> None:
    assert TABLE.markdown() == (
        "**Time of a stage**\n\n"
        "| stage | time (ms) | calls |\n"
        "| --- | ---: | ---: |\n"
        "| decode | 12.3 | 1,200 |\n"
        "| network | - | 7 |"
    )


def test_a_row_that_does_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'Time': .* has 1 cells for 2 columns"):
        Table("Time", ("stage", "ms"), (("decode",),))


def test_a_report_shows_tables_facts_and_machine(capsys: pytest.CaptureFixture[str]) -> None:
    a_report().show()

    out = capsys.readouterr().out
    assert out.startswith("\n## convert\n")
    assert TABLE.markdown() in out
    assert "- real-time factor: 0.0213" in out
    assert "Measured on: processor Abacus 3, cores 2" in out


def test_a_saved_report_is_read_back_with_its_numbers_as_numbers(tmp_path: Path) -> None:
    path = a_report().save(tmp_path / "results")

    assert path == tmp_path / "results" / "convert.json"
    assert json.loads(path.read_text())["tables"][0]["rows"][0] == ["decode", 12.345, 1200]
    assert Report.load(path) == a_report()


@pytest.mark.parametrize("content", ["", "[]", '{"name": "convert"}'])
def test_a_file_that_is_no_report_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "convert.json"
    path.write_text(content)

    with pytest.raises(ValueError, match=r"convert\.json is no report of a benchmark"):
        Report.load(path)


def test_the_description_of_the_machine_does_not_identify_it() -> None:
    machine = describe_machine()

    assert {"processor", "cores", "memory (GiB)", "Python", "onnxruntime", "numpy"} <= set(machine)
    assert isinstance(machine["cores"], int)
    assert str(ROOT) not in json.dumps(machine)


def test_the_processor_is_named_if_the_kernel_names_it(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Abacus 3 @ 1 Hz\n")

    assert processor_name(cpuinfo) == "Abacus 3 @ 1 Hz"
    assert processor_name(tmp_path / "missing")


def test_outside_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    assert commit(tmp_path) is None
