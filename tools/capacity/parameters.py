"""The numbers that the simulation is built on, each with its unit and its source."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

CLOUD: Final = Path(__file__).with_name("parameters.toml")
RESULTS: Final = Path(__file__).parents[1] / "benchmarks" / "results"
KINDS: Final = ("measured", "documented", "deployed", "assumed")
OF_95_PERCENT: Final = 1.6448536269514722
"""How many standard deviations the 95th percentile of a normal distribution lies above its mean."""


class PlanningError(Exception):
    """The planner cannot do what was asked; the message is one sentence for the user."""


def check_range(name: str, number: float | None, least: float, most: float) -> None:
    """Raise PlanningError if a number is given and not in its range."""
    if number is not None and not least <= number <= most:
        option = f"--{name.replace('_', '-')}" if name.isidentifier() else name
        raise PlanningError(f"{option} is {number:g}; it must be from {least:g} to {most:g}.")


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
        return cls(p50, math.log(p95 / p50) / OF_95_PERCENT)

    def at(self, spoken: float) -> float:
        """Return the median in seconds for a number of seconds of speech."""
        return self.median + self.per_spoken * spoken


@dataclass(frozen=True, slots=True)
class Parameters:
    """All parameters by name; a plain number is a duration without any variation."""

    durations: Mapping[str, Duration]
    sources: Mapping[str, str]

    def __getitem__(self, name: str) -> float:
        return self.durations[name].median

    def replaced(self, changes: Mapping[str, Duration]) -> Parameters:
        """Return a copy with some values changed."""
        return replace(self, durations={**self.durations, **changes})


def read_parameters(*paths: Path) -> Parameters:
    """Read parameter files (`CLOUD` by default); a later one overrides an earlier one.

    Raises:
        PlanningError: an entry is malformed, or a figure that it names was not measured.
    """
    durations, sources = {}, {}
    for path in paths or (CLOUD,):
        for section, entries in tomllib.loads(path.read_text()).items():
            for key, entry in entries.items():
                name, source = f"{section}.{key}", str(entry.get("source", ""))
                if source.partition(":")[0] not in KINDS:
                    raise PlanningError(
                        f"{path.name}: {name} needs a source that begins with one of "
                        f"{', '.join(KINDS)}."
                    )
                try:
                    durations[name] = read_duration(entry)
                except (KeyError, TypeError, ValueError, OSError) as error:
                    raise PlanningError(f"{path.name}: {name} cannot be read: {error}") from error
                sources[name] = source
    return Parameters(durations, sources)


def read_duration(entry: Mapping[str, Any]) -> Duration:
    """Return an entry's value, from a benchmark's report where it names one."""
    if "value" in entry:
        return Duration(float(entry["value"]))
    if "p50" in entry:
        return Duration.of(float(entry["p50"]), float(entry["p95"]))
    report = json.loads((RESULTS / f"{entry['benchmark']}.json").read_text())

    def cells(name: str) -> Mapping[str, Any]:
        for table in report["tables"]:
            for row in table["rows"] if table["title"] == entry["table"] else ():
                if row[0] == name:
                    return dict(zip(table["columns"], row, strict=True))
        raise ValueError(f"{entry['benchmark']} has no row {name!r} in {entry['table']!r}")

    row, factor = cells(entry["row"]), float(entry.get("factor", 1.0))
    if "line" in entry:
        spoken = np.array(list(entry["columns"].values()), dtype=float)
        seconds = factor * np.array([row[column] for column in entry["columns"]], dtype=float)
        # By shares: a second too many of a short recording counts more than of a long one.
        slope, intercept = np.polyfit(spoken, seconds, 1, w=1 / seconds)
        return Duration(float(intercept), 0.0, float(slope))
    figure = float(row[entry["column"]])
    if "less" in entry:
        figure -= float(cells(entry["less"])[entry["column"]])
    figure = max(0.0, factor * figure)
    return Duration(0.0, 0.0, figure) if "per_spoken" in entry else Duration(figure)
