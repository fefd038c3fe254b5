"""The outcome of a simulation in the numbers that an operator decides by, and its cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt

from tools.capacity import billing
from tools.capacity.arrivals import DAY
from tools.capacity.parameters import PlanningError
from tools.capacity.simulation import VoiceEnd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.capacity.cloud import RateLimit
    from tools.capacity.settings import Instances, Quota, Settings
    from tools.capacity.simulation import Simulation

PERCENTILES: Final = (50, 95, 99)
RUNNING: Final = (
    "converters at work",
    "idle minimum instances",
    "their liveness probes",
    "functions at work",
)
"""What is charged by the second."""

CURVE_POINTS: Final = 288

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Target:
    """A bound of the wait, such as `p95 <= 1.0 s`."""

    percentile: int
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a target; raise PlanningError if it has another form."""
        match = re.fullmatch(r"\s*p(50|95|99)\s*<=\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s)\s*", text)
        if match is None:
            raise PlanningError(
                f'--target is {text!r}; write it like "p95 <= 1.0 s", with p50, p95 or p99.'
            )
        seconds = float(match[2]) / (1000.0 if match[3] == "ms" else 1.0)
        if seconds <= 0:
            raise PlanningError(f"--target is {text!r}; nobody's wait is 0 or less.")
        return cls(int(match[1]), seconds)

    def __str__(self) -> str:
        return f"p{self.percentile} <= {self.seconds:g} s"

    def holds(self, waits: Numbers) -> bool:
        return percentiles(waits)[self.percentile] <= self.seconds


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of one simulation.

    Attributes:
        waits: of the visitors who stayed, in seconds; a lost voice waits forever.
        bill: US dollars of the simulated time.
        options: what else would cost so much besides.
        begin: second of the day.
        curves: values over the time by what they are, one for each `interval` of seconds.
    """

    settings: Settings
    visitors: int
    counts: Mapping[VoiceEnd, int]
    late: int
    in_line: int
    waits: Numbers
    bill: Mapping[str, float]
    options: Mapping[str, float]
    seconds: float
    most_instances: Instances
    quotas: Mapping[Quota, RateLimit]
    begin: float
    interval: float
    curves: Mapping[str, Numbers]

    @property
    def percentiles(self) -> Mapping[int, float]:
        return percentiles(self.waits)

    @property
    def given_up(self) -> int:
        """Voices that were created and never converted."""
        return self.counts[VoiceEnd.DEAD] + self.counts[VoiceEnd.UNDER_WAY]

    @property
    def dollars(self) -> float:
        return sum(self.bill.values())

    @property
    def idle_dollars(self) -> float:
        return self.bill["idle minimum instances"] + self.bill["their liveness probes"]


def summarise(simulation: Simulation) -> Summary:
    arrivals, weight = simulation.arrivals, simulation.arrivals.weight
    stayed = [visit for visit in simulation.visits if visit.outcome is not VoiceEnd.LEFT]
    waits = np.array(
        [
            visit.ended - visit.released if visit.outcome is VoiceEnd.DONE else np.inf
            for visit in stayed
        ]
    )
    ends = [visit.outcome for visit in simulation.visits]
    patience = simulation.parameters["visitor.patience"]
    met = {quota: use for quota, use in simulation.quotas.items() if use.first_met is not None}
    dollars = bill(simulation)
    interval = max(5.0, arrivals.seconds / CURVE_POINTS)
    moments = np.array([visit.arrived for visit in stayed])
    return Summary(
        settings=simulation.settings,
        visitors=weight * len(arrivals.times),
        counts={outcome: weight * ends.count(outcome) for outcome in VoiceEnd},
        late=weight * int(((waits > patience) & np.isfinite(waits)).sum()),
        in_line=weight * sum(visit.turns > 0 for visit in simulation.visits),
        waits=waits,
        bill=dollars,
        options=options(simulation, dollars),
        seconds=arrivals.seconds,
        most_instances=simulation.most_instances,
        quotas=dict(sorted(met.items(), key=lambda each: each[1].first_met or 0.0)),
        begin=arrivals.begin,
        interval=interval,
        curves=curves(simulation, interval, moments, waits),
    )


def percentiles(waits: Numbers) -> dict[int, float]:
    """Return the percentiles of waits; NaN if there are none."""
    if not len(waits):
        return dict.fromkeys(PERCENTILES, float("nan"))
    # An infinite neighbour must not make a finite percentile infinite.
    found = np.percentile(waits, PERCENTILES, method="inverted_cdf")
    return {which: float(value) for which, value in zip(PERCENTILES, found, strict=True)}


def bill(simulation: Simulation) -> dict[str, float]:
    """Compute the cost of the simulated time in US dollars.

    Only of logs and messages the free part is left out, as if a month were like this time.
    """
    p, settings, weight = (
        simulation.parameters,
        simulation.settings,
        simulation.arrivals.weight,
    )
    done = [visit.spoken for visit in simulation.visits if visit.outcome is VoiceEnd.DONE]
    voices, visits = weight * len(done), weight * len(simulation.visits)
    api, on_upload, convert, live = simulation.services.values()
    container = settings.convert_cpu, settings.gib
    created, later = billing.firestore(p)
    days = simulation.arrivals.seconds / DAY
    months = days / billing.MONTH_DAYS
    functions = api.idle_area + on_upload.idle_area
    found = {
        "converters at work": (convert.active_area + live.active_area)
        * billing.second(p, *container),
        "idle minimum instances": convert.idle_area * billing.second(p, *container, "idle_")
        + functions * billing.second(p, *billing.FUNCTION, "idle_"),
        "their liveness probes": convert.idle_area / DAY * billing.probes(p, *container),
        "functions at work": (api.active_area + on_upload.active_area)
        * billing.second(p, *billing.FUNCTION),
        "requests": weight
        * sum(each.requests for each in simulation.services.values())
        * p["price.request"],
        "Firestore": visits * created + voices * later,
        "Cloud Storage": voices * billing.storage(p),
        "results to the visitors": weight
        * sum(done)
        * (p["voice.result_bytes"] / billing.GIB)
        * p["price.gib_to_the_internet"],
    }
    messages = billing.month_of_messages(p, voices / months)
    found |= {name: months * dollars for name, dollars in messages.items()}
    if characters := p["visitor.own_characters"]:
        character = sum(billing.own_character(p).values())
        found["characters of visitors' own voices"] = characters * character
    return found


def options(simulation: Simulation, found: Mapping[str, float]) -> dict[str, float]:
    """Compute what options, charges to come and another region would cost besides."""
    visits = simulation.arrivals.weight * len(simulation.visits)
    months = simulation.arrivals.seconds / (DAY * billing.MONTH_DAYS)
    running = sum(found[name] for name in RUNNING)
    besides = billing.month_of_options(simulation.parameters, visits / months)
    dollars = {name: months * each for name, each in besides.items()}
    return dollars | {"a region of tier 2": simulation.parameters["price.tier_2"] * running}


def curves(
    simulation: Simulation, interval: float, moments: Numbers, waits: Numbers
) -> dict[str, Numbers]:
    """Return the values of the picture for each interval, by the moments of arrival."""
    arrivals, weight = simulation.arrivals, simulation.arrivals.weight
    count = int(np.ceil(arrivals.seconds / interval))
    arrived = np.histogram(arrivals.times, bins=count, range=(0, count * interval))[0]
    places = np.minimum((moments / interval).astype(np.int64), count - 1)
    p95, instances = np.full(count, np.nan), np.zeros(count)
    for place in np.unique(places):
        p95[place] = percentiles(waits[places == place])[95]
    samples = weight * np.array(simulation.convert.samples)
    ticks = simulation.parameters["cloud_run.tick"] * np.arange(len(samples))
    is_in = ticks < count * interval
    np.maximum.at(instances, (ticks[is_in] / interval).astype(np.int64), samples[is_in])
    lost = np.bincount(places[np.isinf(waits)], minlength=count)
    return {
        "visitors a second": weight * arrived / interval,
        "wait p95, s": p95,
        "converters": instances,
        "voices lost a second": weight * lost / interval,
    }
