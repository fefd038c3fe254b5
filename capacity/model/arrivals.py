"""When visitors come and for how long they speak."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from capacity.model.errors import PlanningError

if TYPE_CHECKING:
    from pathlib import Path

    from capacity.model.parameters import Parameters

Times = npt.NDArray[np.float64]

DAY: Final = 86_400.0
HOUR: Final = 3_600.0
MOST_VOICES: Final = 20_000_000
"""The most visitors of a day; a gigabyte of memory has room for them."""

CURVE: Final = (
    0.45, 0.28, 0.18, 0.13, 0.12, 0.16, 0.32, 0.58, 0.80, 0.92, 1.00, 1.06,
    1.14, 1.10, 1.08, 1.12, 1.22, 1.36, 1.54, 1.74, 1.86, 1.72, 1.28, 0.78,
)  # fmt: skip
"""Visitors in each hour of a day, relative to each other: few at night, most in the evening.

An assumption: the shape that public sites of one time zone commonly have.
"""

COLUMNS: Final = ("seconds", "spoken")


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The visitors of a simulation.

    Attributes:
        times: when each comes, in seconds from the begin, ascending.
        spoken: how many seconds each speaks.
        seconds: how long the simulated time is.
        begin: at which second of the day it begins.
        at_once: if it is not 0, only so many come by themselves, and each of the others as soon as
            an earlier one's voice has its end; their times do not count.
    """

    times: Times
    spoken: Times
    seconds: float
    begin: float = 0.0
    at_once: int = 0


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who is expected.

    Attributes:
        per_day: visitors of the day, all together; or
        peak: visitors a second at the busiest moment, the flash left out.
        flash: by how many times the rate rises at `arrivals.flash_hour`, if it does.
        minutes: simulate only so many minutes, at the rate of the busiest moment.
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
        """Return begin and length of what is simulated, and the visitors of each of its seconds."""
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
        """Return by how many times the flash raises the rate in each second of the day."""
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
    """Draw how many seconds visitors speak."""
    spoken = parameters.duration("visitor.spoken")
    drawn = spoken.median * np.exp(spoken.sigma * chance.standard_normal(count))
    least, most = parameters["visitor.spoken_least"], parameters["visitor.spoken_most"]
    return np.asarray(np.clip(drawn, least, most))


def _draw(rates: Times, count: int, chance: np.random.Generator) -> Times:
    """Draw so many moments of a Poisson process with these rates, in ascending order."""
    cumulated = np.concatenate(([0.0], np.cumsum(rates)))
    points = chance.random(count) * cumulated[-1]
    points.sort()
    return np.asarray(np.interp(points, cumulated, np.arange(len(cumulated), dtype=float)))


def read_arrivals(path: Path, parameters: Parameters, chance: np.random.Generator) -> Arrivals:
    """Read visitors from a CSV file.

    Its columns are `seconds`, when a visitor comes, counted from midnight, and perhaps `spoken`,
    for how many seconds the visitor speaks.

    Raises:
        PlanningError: the file is missing or not of that form.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, strict=True))
            columns = tuple(rows[0]) if rows else ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PlanningError(f"{path} cannot be read: {error}") from error
    if not rows:
        raise PlanningError(f"{path} has no visitors: it needs a line of columns and one for each.")
    _check_columns(path, columns)
    times = _column(path, rows, "seconds", least=0.0, most=DAY)
    order = np.argsort(times, kind="stable")
    if "spoken" in columns:
        least, most = parameters["visitor.spoken_least"], parameters["visitor.spoken_most"]
        spoken = _column(path, rows, "spoken", least=least, most=most)
    else:
        spoken = speak(parameters, len(times), chance)
    return Arrivals(times[order], spoken[order], DAY)


def _check_columns(path: Path, columns: tuple[Any, ...]) -> None:
    unknown = [str(column) for column in columns if column not in COLUMNS]
    if unknown:
        raise PlanningError(
            f"{path} has the column {unknown[0]!r}; only {' and '.join(COLUMNS)} are known."
        )
    if "seconds" not in columns:
        raise PlanningError(f"{path} has no column 'seconds', which says when a visitor comes.")


def _column(
    path: Path, rows: list[dict[str, Any]], name: str, *, least: float, most: float
) -> Times:
    numbers = np.empty(len(rows))
    for index, row in enumerate(rows):
        try:
            numbers[index] = float(row[name])
        except (TypeError, ValueError):
            raise PlanningError(
                f"{path}, line {index + 2}: {name} is {row[name]!r}, which is no number."
            ) from None
        if not least <= numbers[index] <= most:
            raise PlanningError(
                f"{path}, line {index + 2}: {name} is {row[name]}; "
                f"it must be from {least:g} to {most:g}."
            )
    return numbers
