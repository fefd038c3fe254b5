"""The options of a benchmark, and its report."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


ROOT: Final = Path(__file__).parents[2]
LIBRARIES: Final = ("onnxruntime", "numpy", "grpcio")
GIB: Final = 1 << 30


def describe_machine() -> dict[str, str | int | float | bool | None]:
    """Return processor, memory (GiB), versions, commit and date."""
    return {
        "processor": processor_name(Path("/proc/cpuinfo")),
        "cores": len(os.sched_getaffinity(0)),
        "memory (GiB)": round(psutil.virtual_memory().total / GIB),
        "Python": platform.python_version(),
        **{name: metadata.version(name) for name in LIBRARIES},
        "commit": commit(ROOT),
        "date": datetime.now(UTC).date().isoformat(),
    }


def processor_name(cpuinfo: Path) -> str:
    """Return the processor's name as the kernel tells it, else the architecture."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.machine()


def commit(root: Path) -> str | None:
    """Return the commit that is measured, or None outside a repository; + means: and changes."""
    git = shutil.which("git")
    if git is None:
        return None
    command = (git, "-C", str(root), "describe", "--always", "--abbrev=10", "--exclude=*")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    status = (
        git,
        "-C",
        str(root),
        "status",
        "--porcelain",
        "functions",
        "shared",
        "infra",
    )
    changes = subprocess.run(status, capture_output=True, text=True, check=False)
    return done.stdout.strip() + ("+" if changes.stdout.strip() else "")


Cell = str | int | float | bool | None
"""A number stays a number until it is shown; None is what could not be measured."""

MISSING: Final = "-"


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """What can be chosen about a benchmark.

    Attributes:
        quick: measure less, in seconds instead of minutes; for the guard and for development.
    """

    quick: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Figures side by side."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"{self.title!r}: {row!r} has {len(row)} cells for {len(self.columns)} columns"
                )

    def markdown(self) -> str:
        """Return it as a Markdown table: text to the left, numbers to the right."""
        lines = [_markdown_row(self.columns)]
        lines.append(_markdown_row(tuple(map(self._alignment, range(len(self.columns))))))
        lines += [_markdown_row(tuple(map(shown, row))) for row in self.rows]
        return "\n".join((f"**{self.title}**", "", *lines))

    def _alignment(self, column: int) -> str:
        cells = [row[column] for row in self.rows if row[column] is not None]
        return "---" if any(isinstance(cell, str) for cell in cells) else "---:"


@dataclass(frozen=True, slots=True)
class Report:
    """What a benchmark found."""

    name: str
    tables: tuple[Table, ...]
    facts: Mapping[str, Cell] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)
    machine: Mapping[str, Cell] = field(default_factory=describe_machine)

    def markdown(self) -> str:
        """Return everything as Markdown, the machine last."""
        parts = [table.markdown() for table in self.tables]
        if self.facts:
            parts.append("\n".join(f"- {fact}: {shown(v)}" for fact, v in self.facts.items()))
        parts.append(
            "Measured on: " + ", ".join(f"{k} {shown(v)}" for k, v in self.machine.items())
        )
        return "\n\n".join(parts)

    def show(self) -> None:
        """Print it."""
        print(f"\n## {self.name}\n\n{self.markdown()}\n", flush=True)

    def save(self, folder: Path) -> Path:
        """Write it to `NAME.json` in a folder and return the path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")
        draft.replace(path)
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            ValueError: the file is not of that form.
        """
        try:
            return cls._from_json(json.loads(path.read_text()))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is no report of a benchmark: {error!r}") from error

    @classmethod
    def _from_json(cls, content: dict[str, Any]) -> Self:
        tables = tuple(
            Table(table["title"], tuple(table["columns"]), tuple(map(tuple, table["rows"])))
            for table in content["tables"]
        )
        return cls(content["name"], tables, content["facts"], content["ratios"], content["machine"])


def shown(cell: Cell) -> str:
    """Return a cell as it is read: numbers with three significant digits."""
    if cell is None:
        return MISSING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return _shown_float(cell)
    return cell


def _shown_float(number: float) -> str:
    for least, decimals in ((100, 0), (10, 1), (1, 2), (0.1, 3)):
        if abs(number) >= least:
            return f"{number:,.{decimals}f}"
    return f"{number:.3g}"


def _markdown_row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


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

    Raises:
        MarksError: there is no place for one of them.
    """
    text = page.read_text()
    for path in results:
        text = with_figures(text, Report.load(path))
    page.write_text(text)
