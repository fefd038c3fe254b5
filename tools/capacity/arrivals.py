"""The times at which visitors arrive, and the seconds that they speak."""

from __future__ import annotations

import csv
from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from tools.capacity.parameters import PlanningError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tools.capacity.parameters import Parameters

Times = npt.NDArray[np.float64]

DAY: Final = 86_400.0
HOUR: Final = 3_600.0
MOST_VOICES: Final = 20_000_000
"""The most visitors of one simulation."""

CURVE: Final = (
    0.45, 0.28, 0.18, 0.13, 0.12, 0.16, 0.32, 0.58, 0.80, 0.92, 1.00, 1.06,
    1.14, 1.10, 1.08, 1.12, 1.22, 1.36, 1.54, 1.74, 1.86, 1.72, 1.28, 0.78,
)  # fmt: skip
"""Visitors in each hour of a day, relative to each other: few at night, most in the evening.

An assumption: the shape that public sites of one time zone commonly have.
"""

COLUMNS: Final = ("seconds", "spoken")
MOST_SIMULATED: Final = 150_000
SAMPLE: Final = 10


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The visitors of a simulation.

    Attributes:
        times: seconds from the begin, ascending.
        spoken: seconds of speech of each.
        begin: second of the day.
    """

    times: Times
    spoken: Times
    seconds: float
    begin: float = 0.0
    weight: int = 1

    @property
    def visitors(self) -> int:
        """The visitors that are stood for."""
        return self.weight * len(self.times)

    def sample(self, most: int = MOST_SIMULATED) -> Arrivals:
        """Return a sample in which a tenth stands for all, where there are more than `most`."""
        if len(self.times) <= most:
            return self
        part = slice(0, None, SAMPLE)
        times, spoken = self.times[part], self.spoken[part]
        return replace(self, times=times, spoken=spoken, weight=SAMPLE * self.weight)


@dataclass(frozen=True, slots=True)
class CrowdForecast:
    """A day of visitors.

    Attributes:
        peak: visitors a second at the busiest moment, without the flash.
        flash: the factor by which the rate rises at `arrivals.flash_hour`.
    """

    per_day: float | None = None
    peak: float | None = None
    flash: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        for name, number in (
            ("--per-day", self.per_day),
            ("--peak", self.peak),
            ("--minutes", self.minutes),
        ):
            if number is not None and not (np.isfinite(number) and number > 0):
                raise PlanningError(f"{name} is {number:g}; it must be a number above 0.")
        if self.flash is not None and not (np.isfinite(self.flash) and self.flash >= 1):
            raise PlanningError(
                f"--flash is {self.flash:g}x; it must be 1x or more, as in --flash 100x."
            )
        if (self.per_day is None) == (self.peak is None):
            raise PlanningError("Say how many come: either --per-day N or --peak R, not both.")

    def arrivals(self, parameters: Parameters, chance: np.random.Generator) -> Arrivals:
        """Draw the visitors at random.

        Raises:
            PlanningError: there are more than fit into memory.
        """
        begin, seconds, rates = self._rates(parameters)
        expected = float(rates.sum())
        if expected > MOST_VOICES:
            raise PlanningError(
                f"These are {expected:,.0f} voices; at most {MOST_VOICES:,} can be simulated "
                "at once. Add --minutes 5 to look at the busiest minutes alone."
            )
        count = round(expected) if self.per_day is not None else int(chance.poisson(expected))
        return Arrivals(
            _draw(rates, count, chance), speak(parameters, count, chance), seconds, begin
        )

    def _rates(self, parameters: Parameters) -> tuple[float, float, Times]:
        """Return begin, length, and the visitors of each second."""
        rates = daily_rates() * self._surge(parameters)
        if self.peak is not None:
            rates = daily_rates() * self.peak / daily_rates().max() * self._surge(parameters)
        elif self.per_day is not None:
            rates *= self.per_day / rates.sum()
        if self.minutes is None:
            return 0.0, DAY, rates
        seconds = round(60 * self.minutes)
        middle = int(rates.argmax())
        if self.flash is None:
            return float(middle), float(seconds), np.full(seconds, rates.max())
        # A little of what was before, so that the crowd does not find everything empty.
        first = max(
            0, min(int(parameters["arrivals.flash_hour"] * HOUR) - seconds // 4, int(DAY) - seconds)
        )
        return float(first), float(seconds), rates[first : first + seconds]

    def _surge(self, parameters: Parameters) -> Times:
        """Return the flash's factor for each second of the day."""
        surge = np.ones(int(DAY))
        if self.flash is None:
            return surge
        begin = parameters["arrivals.flash_hour"] * HOUR
        rise, half_life = parameters["arrivals.flash_rise"], parameters["arrivals.flash_half_life"]
        since = np.arange(int(DAY)) + 0.5 - begin
        rising = np.clip(since / rise, 0.0, 1.0)
        falling = 0.5 ** (np.maximum(0.0, since - rise) / half_life)
        return np.asarray(surge + (self.flash - 1.0) * rising * falling)


def daily_rates() -> Times:
    """Return a day's curve: 86 400 rates whose mean is 1, without steps from hour to hour."""
    hours = np.array(CURVE)
    middles = (np.arange(-1, 25) + 0.5) * HOUR
    around = np.concatenate((hours[-1:], hours, hours[:1]))
    rates = np.interp(np.arange(DAY) + 0.5, middles, around)
    return np.asarray(rates / rates.mean())


def speak(parameters: Parameters, count: int, chance: np.random.Generator) -> Times:
    """Draw the seconds that visitors speak."""
    spoken = parameters.duration("visitor.spoken")
    drawn = spoken.median * np.exp(spoken.sigma * chance.standard_normal(count))
    least, most = parameters["visitor.spoken_least"], parameters["visitor.spoken_most"]
    return np.asarray(np.clip(drawn, least, most))


def _draw(rates: Times, count: int, chance: np.random.Generator) -> Times:
    """Draw `count` moments of a Poisson process with these rates, ascending."""
    cumulated = np.concatenate(([0.0], np.cumsum(rates)))
    points = chance.random(count) * cumulated[-1]
    points.sort()
    return np.asarray(np.interp(points, cumulated, np.arange(len(cumulated), dtype=float)))


def read_arrivals(path: Path, parameters: Parameters, chance: np.random.Generator) -> Arrivals:
    """Read visitors from a CSV file.

    Its columns are `seconds` since midnight and, optionally, `spoken` seconds of speech.

    Raises:
        PlanningError: the file is missing or not of that form.
    """
    limits = {
        "seconds": (0.0, DAY),
        "spoken": (parameters["visitor.spoken_least"], parameters["visitor.spoken_most"]),
    }
    try:
        # Spreadsheets write a mark before the first column.
        with path.open(newline="", encoding="utf-8-sig") as file:
            columns = _read_columns(path, csv.DictReader(file, strict=True), limits)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PlanningError(f"{path} cannot be read: {error}") from error
    times = columns["seconds"]
    order = np.argsort(times, kind="stable")
    spoken = columns.get("spoken")
    if spoken is None:
        spoken = speak(parameters, len(times), chance)
    return Arrivals(times[order], spoken[order], DAY)


def _read_columns(
    path: Path, rows: csv.DictReader[str], limits: Mapping[str, tuple[float, float]]
) -> Mapping[str, Times]:
    """Read the numbers of each column, row by row: a file may be larger than the memory."""
    numbers: dict[str, array[float]] = {name: array("d") for name in rows.fieldnames or ()}
    for count, row in enumerate(rows):
        if count == 0:
            _check_columns(path, rows.fieldnames or ())
        if count == MOST_VOICES:
            raise PlanningError(
                f"{path} has more than the {MOST_VOICES:,} voices that can be simulated at once."
            )
        where = f"{path}, line {rows.line_num}"
        if len(row) != len(numbers) or None in row.values():
            raise PlanningError(
                f"{where}: expected {len(numbers)} cells, found another number; only"
                f" {' and '.join(COLUMNS)} are known."
            )
        for name, values in numbers.items():
            values.append(_number(f"{where}: {name}", row[name], *limits[name]))
    if not any(numbers.values()):
        raise PlanningError(f"{path} has no visitors: it needs a line of columns and one for each.")
    return {name: np.asarray(values) for name, values in numbers.items()}


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown:
        raise PlanningError(
            f"{path} has the column {unknown[0]!r}; only {' and '.join(COLUMNS)} are known."
        )
    if "seconds" not in columns:
        raise PlanningError(f"{path} has no column 'seconds', which says when a visitor comes.")
    if len(set(columns)) < len(columns):
        raise PlanningError(f"{path} has a column twice; name each once.")


def _number(what: str, text: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        raise PlanningError(f"{what} is {text!r}, which is no number.") from None
    if not least <= number <= most:
        raise PlanningError(f"{what} is {text}; it must be from {least:g} to {most:g}.")
    return number
