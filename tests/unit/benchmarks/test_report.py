from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.benchmarks import __main__ as command
from tools.benchmarks.report import Report, Table, marks, with_figures

if TYPE_CHECKING:
    from pathlib import Path

TABLE = Table(
    "Time of a stage",
    ("stage", "time (ms)", "calls"),
    (("decode", 12.345, 1200), ("network", None, 7)),
)


def a_report(figure: float = 0.0213, name: str = "convert") -> Report:
    return Report(name, (TABLE,), {"real-time factor": figure}, {"decode": 0.4}, {"cores": 2})


def a_page(*names: str) -> str:
    places = "".join("\n{}\n{}\n".format(*marks(name)) for name in names)
    return f"# Benchmarks\n{places}\nThe end \\1.\n"


def test_a_saved_report_is_read_back_with_its_numbers_as_numbers(tmp_path: Path) -> None:
    path = a_report().save(tmp_path / "results")

    assert path == tmp_path / "results" / "convert.json"
    assert Report.load(path) == a_report()
    path.write_text('{"name": "convert"}')
    with pytest.raises(ValueError, match=r"convert\.json is not a report of a benchmark"):
        Report.load(path)


def test_new_figures_replace_the_old_ones_between_their_marks() -> None:
    once = with_figures(a_page("convert", "http"), a_report(1.5))
    twice = with_figures(once, a_report(2.5))

    begin, end = marks("convert")
    assert f"{begin}\n\n{a_report(2.5).markdown()}\n\n{end}\n" in twice
    assert "{}\n{}\n".format(*marks("http")) in twice
    assert twice == with_figures(a_page("convert", "http"), a_report(2.5))
    assert twice.endswith("\nThe end \\1.\n")


@pytest.mark.parametrize(
    "text",
    [a_page("http"), a_page("convert", "convert"), "{1}\n{0}\n".format(*marks("convert"))],
    ids=["none", "twice", "the wrong way round"],
)
def test_figures_whose_marks_are_missing_or_repeated_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="measured convert: begin"):
        with_figures(text, a_report())


@pytest.mark.parametrize("name", command.MODULES)
def test_every_benchmark_has_a_module_and_its_stored_figures_are_in_its_page(name: str) -> None:
    page = command.page_of(name).read_text()

    assert (command.FOLDER / f"{command.MODULES[name]}.py").is_file()
    assert with_figures(page, Report.load(command.RESULTS / f"{name}.json")) == page
