"""The times at which visitors arrive, and the seconds that they speak."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from tools.capacity.parameters import PlanningError, check_range

if TYPE_CHECKING:
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

MOST_SIMULATED: Final = 40_000
"""Above it each visitor stands for several; a refusal of one then is one of several at once."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The visitors of a simulation.

    Attributes:
        times: seconds from the begin, ascending.
        spoken: seconds of speech of each.
        begin: second of the day.
        weight: the visitors that each one stands for.
        bursts: the moments at which one client uploads as many recordings as it may.
    """

    times: Times
    spoken: Times
    seconds: float
    begin: float = 0.0
    weight: int = 1
    bursts: tuple[float, ...] = ()

    def sample(self) -> Arrivals:
        """Return at most `MOST_SIMULATED` visitors; each then stands for others as well."""
        weight = max(1, -(-len(self.times) // MOST_SIMULATED))
        return replace(
            self, times=self.times[::weight], spoken=self.spoken[::weight], weight=weight
        )


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
        for name, least in (("per_day", 0.001), ("peak", 1e-6), ("minutes", 0.1), ("flash", 1.0)):
            check_range(name, getattr(self, name), least, 1e9)
        if (self.per_day is None) == (self.peak is None):
            raise PlanningError("Say how many come: either --per-day N or --peak R, not both.")

    def arrivals(self, parameters: Parameters, chance: np.random.Generator) -> Arrivals:
        """Draw the visitors at random, as a Poisson process.

        Raises:
            PlanningError: there are more than fit into memory.
        """
        begin, rates = self.rates(parameters)
        expected = float(rates.sum())
        if expected > MOST_VOICES:
            raise PlanningError(
                f"These are {expected:,.0f} voices; at most {MOST_VOICES:,} can be simulated "
                "at once. Add --minutes 5 to look at the busiest minutes alone."
            )
        count = round(expected) if self.per_day is not None else int(chance.poisson(expected))
        cumulated = np.concatenate(([0.0], np.cumsum(rates)))
        points = np.sort(chance.random(count)) * cumulated[-1]
        times = np.interp(points, cumulated, np.arange(len(cumulated), dtype=float))
        return Arrivals(times, speak(parameters, count, chance), float(len(rates)), begin)

    def rates(self, parameters: Parameters) -> tuple[float, Times]:
        """Return the begin, in seconds of the day, and the visitors of each second from there."""
        usual = daily_rates()
        rates = usual * self.peak / usual.max() if self.peak is not None else usual
        flash_begin = parameters["arrivals.flash_hour"] * HOUR
        if self.flash is not None:
            rise = parameters["arrivals.flash_rise"]
            since = np.arange(DAY) + 0.5 - flash_begin
            rising = np.clip(since / rise, 0.0, 1.0)
            half_lives = np.maximum(0.0, since - rise) / parameters["arrivals.flash_half_life"]
            rates = rates * (1.0 + (self.flash - 1.0) * rising * 0.5**half_lives)
        if self.per_day is not None:
            rates = rates * self.per_day / rates.sum()
        if self.minutes is None:
            return 0.0, rates
        seconds = round(60 * self.minutes)
        if self.flash is None:
            return float(rates.argmax()), np.full(seconds, rates.max())
        # A little of what was before, so that the crowd does not find everything empty.
        first = max(0, min(int(flash_begin) - seconds // 4, int(DAY) - seconds))
        return float(first), rates[first : first + seconds]


def daily_rates() -> Times:
    """Return a day's curve: 86 400 rates whose mean is 1, without steps from hour to hour."""
    middles = (np.arange(-1, 25) + 0.5) * HOUR
    rates = np.interp(np.arange(DAY) + 0.5, middles, (CURVE[-1], *CURVE, CURVE[0]))
    return np.asarray(rates / rates.mean())


def speak(parameters: Parameters, count: int, chance: np.random.Generator) -> Times:
    """Draw the seconds that visitors speak."""
    spoken = parameters.durations["visitor.spoken"]
    drawn = spoken.median * np.exp(spoken.sigma * chance.standard_normal(count))
    least, most = parameters["visitor.spoken_least"], parameters["visitor.spoken_most"]
    return np.asarray(np.clip(drawn, least, most))


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
    found: dict[str, list[float]] = {name: [] for name in limits}
    where = str(path)
    try:
        # Spreadsheets write a mark before the first column.
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            columns = reader.fieldnames or ["seconds"]
            if "seconds" not in columns or not set(columns) <= limits.keys():
                raise PlanningError(f"{path} needs the column seconds, and may have spoken alone.")
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                for name, text in row.items():
                    check_range(f"{where}: {name}", float(text), *limits[name])
                    found[name].append(float(text))
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise PlanningError(f"{where} cannot be read: {error}") from error
    if not found["seconds"]:
        raise PlanningError(f"{path} has no visitors: it needs a line of columns and one for each.")
    times = np.array(found["seconds"])
    order = np.argsort(times, kind="stable")
    spoken = np.array(found["spoken"] or speak(parameters, len(times), chance))
    return Arrivals(times[order], spoken[order], DAY)
