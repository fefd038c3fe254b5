"""Reports of benchmarks: tables, facts and ratios, as JSON and as parts of a Markdown page."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Self

import psutil

from infra.local.configuration.options import ROOT

Cell = str | int | float | bool | None
"""A number stays a number until it is shown; None is a figure that could not be measured."""

PERCENTILES: Final = (50, 95, 99)
_LIBRARIES: Final = ("onnxruntime", "numpy", "grpcio")
_MEASURED_FOLDERS: Final = ("functions", "shared", "speech", "infra")
_GIB: Final = 1 << 30


def describe_machine(cpuinfo: str = "/proc/cpuinfo") -> dict[str, Cell]:
    """Return the kind of machine, the versions, the commit and the date, but no name of a host."""
    return {
        "processor": _processor_name(cpuinfo),
        "cores": len(os.sched_getaffinity(0)),
        "memory (GiB)": round(psutil.virtual_memory().total / _GIB),
        "Python": platform.python_version(),
        **{name: metadata.version(name) for name in _LIBRARIES},
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _processor_name(cpuinfo: str) -> str:
    try:
        with open(cpuinfo) as file:  # noqa: PTH123 - a file of the kernel
            found = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.machine()


def _commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None

    def ask(*arguments: str) -> str | None:
        command = (git, "-C", str(ROOT), *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return None if done.returncode else done.stdout.strip()

    commit = ask("describe", "--always", "--abbrev=10", "--exclude=*")
    return commit and commit + ("+" if ask("status", "--porcelain", *_MEASURED_FOLDERS) else "")


@dataclass(frozen=True, slots=True)
class Table:
    """Figures side by side; each row has as many cells as there are columns."""

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
        lines = [self.columns, tuple(map(self._alignment, range(len(self.columns))))]
        lines += [tuple(map(shown, row)) for row in self.rows]
        return "\n".join((f"**{self.title}**", "", *(f"| {' | '.join(each)} |" for each in lines)))

    def _alignment(self, column: int) -> str:
        return "---" if any(isinstance(row[column], str) for row in self.rows) else "---:"


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of a benchmark."""

    name: str
    tables: tuple[Table, ...]
    facts: Mapping[str, Cell] = field(default_factory=dict)  # by a sentence that describes each
    # Costs without a unit, for the guard; they hardly depend on the machine, and greater is worse.
    ratios: Mapping[str, float] = field(default_factory=dict)
    machine: Mapping[str, Cell] = field(default_factory=describe_machine)

    def markdown(self) -> str:
        parts = [table.markdown() for table in self.tables]
        if self.facts:
            parts.append("\n".join(f"- {fact}: {shown(v)}" for fact, v in self.facts.items()))
        machine = ", ".join(f"{key} {shown(value)}" for key, value in self.machine.items())
        return "\n\n".join((*parts, f"Measured on: {machine}"))

    def show(self) -> None:
        print(f"\n## {self.name}\n\n{self.markdown()}\n", flush=True)

    def save(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")
        draft.replace(path)
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `save` wrote.

        Raises:
            ValueError: the file is not of that form.
        """
        try:
            content: dict[str, Any] = json.loads(path.read_text())
            tables = tuple(
                Table(table["title"], tuple(table["columns"]), tuple(map(tuple, table["rows"])))
                for table in content["tables"]
            )
            facts, ratios, machine = (content[name] for name in ("facts", "ratios", "machine"))
            return cls(content["name"], tables, facts, ratios, machine)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a report of a benchmark: {error!r}") from error


def shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, str):
        return cell
    for least, decimals in ((100, 0), (10, 1), (1, 2), (0.1, 3)):
        if abs(cell) >= least:
            return f"{cell:,.{decimals}f}"
    return f"{cell:.3g}"


def marks(name: str, kind: str = "measured") -> tuple[str, str]:
    """Return the lines before and after what a command writes into a page."""
    return f"<!-- {kind} {name}: begin -->", f"<!-- {kind} {name}: end -->"


def with_part(text: str, part: str, begin: str, end: str) -> str:
    """Return the text of a page with this between its marks.

    Raises:
        ValueError: the page does not have both marks once each, in this order.
    """
    marked = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    if text.count(begin) != 1 or text.count(end) != 1 or not marked.search(text):
        raise ValueError(f"the page needs the lines {begin!r} and {end!r} once each, in this order")
    return marked.sub(lambda _: f"{begin}\n\n{part}\n\n{end}", text)


def with_figures(text: str, report: Report) -> str:
    return with_part(text, report.markdown(), *marks(report.name))


def write_figures(page: Path, results: Iterable[Path]) -> None:
    text = page.read_text()
    for path in results:
        text = with_figures(text, Report.load(path))
    page.write_text(text)
