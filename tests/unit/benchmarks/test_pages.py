from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as command
from benchmarks.measuring.pages import MarksError, begin, end, with_figures, write_figures
from benchmarks.measuring.report import Report, Table

if TYPE_CHECKING:
    from pathlib import Path


def a_report(milliseconds: float, name: str = "convert") -> Report:
    table = Table("Time", ("stage", "ms"), (("decode", milliseconds),))
    return Report(name, (table,), machine={"cores": 2})


def a_readme(*names: str) -> str:
    places = "".join(f"\n## {name}\n\n{begin(name)}\n{end(name)}\n" for name in names)
    return f"# Benchmarks\n{places}\nThe end \\1.\n"


def test_figures_come_between_their_marks_and_nothing_else_changes() -> None:
    report = a_report(1.5)

    text = with_figures(a_readme("convert", "http"), report)

    assert f"{begin('convert')}\n\n{report.markdown()}\n\n{end('convert')}\n" in text
    assert f"{begin('http')}\n{end('http')}\n" in text
    assert text.endswith("\nThe end \\1.\n")


def test_newer_figures_replace_the_older_ones() -> None:
    once = with_figures(a_readme("convert"), a_report(1.5))

    twice = with_figures(once, a_report(2.5))

    assert twice == with_figures(a_readme("convert"), a_report(2.5))


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
        with_figures(text, a_report(1.5))


def test_the_figures_of_several_files_are_written(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(a_readme("convert", "http"))
    reports = [a_report(1.5), a_report(2.5, "http")]

    write_figures(readme, [report.save(tmp_path) for report in reports])

    assert all(report.markdown() in readme.read_text() for report in reports)


def test_every_benchmark_has_a_place_in_its_page() -> None:
    for name in command.MODULES:
        text = command.page_of(name).read_text()

        assert a_report(1.5, name).markdown() in with_figures(text, a_report(1.5, name))


def test_every_benchmark_of_the_command_has_its_module() -> None:
    for module in command.MODULES.values():
        assert (command.FOLDER.parent / f"{module.replace('.', '/')}.py").is_file(), module
