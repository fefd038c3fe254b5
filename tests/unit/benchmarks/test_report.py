from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tools.benchmarks import __main__ as command
from tools.benchmarks.report import (
    ROOT,
    MarksError,
    Report,
    Table,
    begin,
    commit,
    describe_machine,
    end,
    processor_name,
    shown,
    with_figures,
    write_figures,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tools.benchmarks.report import Cell


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


def a_short_report(milliseconds: float, name: str = "convert") -> Report:
    table = Table("Time", ("stage", "ms"), (("decode", milliseconds),))
    return Report(name, (table,), machine={"cores": 2})


def a_readme(*names: str) -> str:
    places = "".join(f"\n## {name}\n\n{begin(name)}\n{end(name)}\n" for name in names)
    return f"# Benchmarks\n{places}\nThe end \\1.\n"


def test_figures_come_between_their_marks_and_nothing_else_changes() -> None:
    report = a_short_report(1.5)

    text = with_figures(a_readme("convert", "http"), report)

    assert f"{begin('convert')}\n\n{report.markdown()}\n\n{end('convert')}\n" in text
    assert f"{begin('http')}\n{end('http')}\n" in text
    assert text.endswith("\nThe end \\1.\n")


def test_newer_figures_replace_the_older_ones() -> None:
    once = with_figures(a_readme("convert"), a_short_report(1.5))

    twice = with_figures(once, a_short_report(2.5))

    assert twice == with_figures(a_readme("convert"), a_short_report(2.5))


@pytest.mark.parametrize(
    "text",
    [
        a_readme("http"),
        a_readme("convert", "convert"),
        f"{end('convert')}\n{begin('convert')}\n",
        f"{begin('convert')}\n",
    ],
    ids=["none", "twice", "the wrong way round", "no end"],
)
def test_figures_whose_marks_are_missing_or_repeated_are_refused(text: str) -> None:
    with pytest.raises(MarksError, match="measured convert: begin"):
        with_figures(text, a_short_report(1.5))


def test_the_figures_of_several_files_are_written(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(a_readme("convert", "http"))
    reports = [a_short_report(1.5), a_short_report(2.5, "http")]

    write_figures(readme, [report.save(tmp_path) for report in reports])

    assert all(report.markdown() in readme.read_text() for report in reports)


def test_every_benchmark_has_a_place_in_its_page() -> None:
    for name in command.MODULES:
        text = command.page_of(name).read_text()

        assert a_short_report(1.5, name).markdown() in with_figures(text, a_short_report(1.5, name))


def test_every_benchmark_of_the_command_has_its_module() -> None:
    for module in command.MODULES.values():
        assert (command.FOLDER.parent / f"{module.replace('.', '/')}.py").is_file(), module
