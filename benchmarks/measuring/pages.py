"""Writes measured figures into a Markdown page, between marks: no figure is typed by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.measuring.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class MarksError(ValueError):
    """A page has no place for a report."""


def begin(name: str) -> str:
    """Return the line before a benchmark's figures."""
    return f"<!-- measured {name}: begin -->"


def end(name: str) -> str:
    """Return the line after a benchmark's figures."""
    return f"<!-- measured {name}: end -->"


def with_figures(text: str, report: Report) -> str:
    """Return a page's text with a report's figures between the marks of the report.

    Raises:
        MarksError: the marks are not there, in this order, once.
    """
    name = report.name
    marked = re.compile(f"{re.escape(begin(name))}\n.*?{re.escape(end(name))}", re.DOTALL)
    if text.count(begin(name)) != 1 or text.count(end(name)) != 1 or not marked.search(text):
        raise MarksError(
            f"the page needs the lines {begin(name)!r} and {end(name)!r} once each, in this order"
        )
    figures = f"{begin(name)}\n\n{report.markdown()}\n\n{end(name)}"
    return marked.sub(lambda _: figures, text)


def write_figures(page: Path, results: Iterable[Path]) -> None:
    """Write the figures of some reports into a page.

    Args:
        page: the Markdown file.
        results: the JSON files of the reports.

    Raises:
        MarksError: there is no place for one of them.
    """
    text = page.read_text()
    for path in results:
        text = with_figures(text, Report.load(path))
    page.write_text(text)
