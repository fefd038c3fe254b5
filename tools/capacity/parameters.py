"""The numbers that the simulation is built on, each with its unit and its source."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER: Final = Path(__file__).parent
CLOUD: Final = FOLDER / "parameters.toml"
RESULTS: Final = FOLDER.parent / "benchmarks" / "results"
KINDS: Final = ("measured", "documented", "deployed", "assumed")

_OF_95_PERCENT: Final = 1.6448536269514722
"""How many standard deviations the 95th percentile of a normal distribution lies above its mean."""


class PlanningError(Exception):
    """The planner cannot do what was asked; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A lognormal duration that may grow with the length of the speech.

    Attributes:
        median: seconds.
        sigma: standard deviation of its logarithm.
        per_spoken: seconds that the median grows by for each second of speech.
    """

    median: float
    sigma: float = 0.0
    per_spoken: float = 0.0

    @classmethod
    def of(cls, p50: float, p95: float) -> Self:
        """Return the duration that has these percentiles, in seconds."""
        return cls(p50, math.log(p95 / p50) / _OF_95_PERCENT)

    def at(self, spoken: float) -> float:
        """Return the median in seconds for a number of seconds of speech."""
        return self.median + self.per_spoken * spoken


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Attributes:
        duration: its value; a plain number is a duration without any variation.
        source: where it comes from, beginning with one of `KINDS`.
    """

    duration: Duration
    unit: str
    source: str

    @property
    def kind(self) -> str:
        """The first word of the source, one of `KINDS`."""
        return self.source.partition(":")[0]


class Parameters:
    """All parameters, by name."""

    def __init__(self, values: Mapping[str, Parameter]) -> None:
        self._values = dict(values)

    def __iter__(self) -> Iterator[tuple[str, Parameter]]:
        return iter(self._values.items())

    def __getitem__(self, name: str) -> float:
        return self._values[name].duration.median

    def duration(self, name: str) -> Duration:
        """Return a parameter with its variation and its growth."""
        return self._values[name].duration

    def replaced(self, changes: Mapping[str, Duration]) -> Parameters:
        """Return a copy with some values changed."""
        values = dict(self._values)
        for name, duration in changes.items():
            values[name] = Parameter(duration, values[name].unit, values[name].source)
        return Parameters(values)


def read_parameters(*paths: Path, results: Path = RESULTS) -> Parameters:
    """Read parameter files (`CLOUD` by default); a later one overrides an earlier one.

    `results` is the folder with the reports of the benchmarks.

    Raises:
        PlanningError: an entry is malformed, or a figure that it names was not measured.
    """
    values: dict[str, Parameter] = {}
    for path in paths or (CLOUD,):
        for section, entries in tomllib.loads(path.read_text()).items():
            for name, entry in entries.items():
                values[f"{section}.{name}"] = _parameter(path, f"{section}.{name}", entry, results)
    return Parameters(values)


def _parameter(path: Path, name: str, entry: Mapping[str, Any], results: Path) -> Parameter:
    source = str(entry.get("source", ""))
    if source.partition(":")[0] not in KINDS:
        raise PlanningError(
            f"{path.name}: {name} needs a source that begins with one of {', '.join(KINDS)}."
        )
    try:
        return Parameter(_value(entry, results), str(entry["unit"]), source)
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise PlanningError(f"{path.name}: {name} cannot be read: {error}") from error


def _value(entry: Mapping[str, Any], results: Path) -> Duration:
    if "value" in entry:
        return Duration(float(entry["value"]))
    if "p50" in entry:
        return Duration.of(float(entry["p50"]), float(entry["p95"]))
    row = _measured_row(entry, entry["row"], results)
    factor = float(entry.get("factor", 1.0))
    if "line" in entry:
        spoken = np.array(list(entry["columns"].values()), dtype=float)
        seconds = factor * np.array([row[column] for column in entry["columns"]], dtype=float)
        # By shares: a second too many of a short recording counts more than of a long one.
        slope, intercept = np.polyfit(spoken, seconds, 1, w=1 / seconds)
        return Duration(float(intercept), 0.0, float(slope))
    figure = float(row[entry["column"]])
    if "less" in entry:
        figure -= float(_measured_row(entry, entry["less"], results)[entry["column"]])
    return Duration(max(0.0, factor * figure))


def _measured_row(entry: Mapping[str, Any], name: str, results: Path) -> Mapping[str, Any]:
    """Return the cells of a row of a benchmark's report, by column."""
    report = json.loads((results / f"{entry['benchmark']}.json").read_text())
    for table in report["tables"]:
        if table["title"] != entry["table"]:
            continue
        for row in table["rows"]:
            if row[0] == name:
                return dict(zip(table["columns"], row, strict=True))
    raise ValueError(f"{entry['benchmark']} has no row {name!r} in {entry['table']!r}")
