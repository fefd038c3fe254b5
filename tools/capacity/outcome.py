"""The outcome of a simulation in the numbers that an operator decides by, and its cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt

from tools.capacity.parameters import PlanningError
from tools.capacity.simulation import VoiceEnd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.capacity.cloud import RateLimit
    from tools.capacity.parameters import Parameters
    from tools.capacity.settings import Instances, Quota, Settings
    from tools.capacity.simulation import Simulation

PERCENTILES: Final = (50, 95, 99)
GIB: Final = 2.0**30
BYTES_OF_A_MESSAGE: Final = 2_000.0
"""Published and delivered, each billed as 1,000 bytes at least."""

OBJECT_WRITES: Final = 4
"""Recording, result, the emptied recording; the notifications count as one more."""

OBJECT_READS: Final = 2
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

    def holds(self, waits: Mapping[int, float]) -> bool:
        """Return whether percentiles of the wait are within the bound."""
        return waits[self.percentile] <= self.seconds


@dataclass(frozen=True, slots=True)
class Curves:
    """Values over the simulated time, one for each interval of `interval` seconds.

    Attributes:
        begin: second of the day.
        arrivals: visitors a second.
        p95: the wait of those who finished speaking then, in seconds; NaN where there were none.
        lost: voices refused or given up, a second.
    """

    interval: float
    begin: float
    arrivals: Numbers
    p95: Numbers
    instances: Numbers
    lost: Numbers


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of one simulation.

    Attributes:
        waits: percentiles of the wait in seconds; a lost voice waits forever.
    """

    settings: Settings
    visitors: int
    counts: Mapping[VoiceEnd, int]
    late: int
    in_line: int
    waits: Mapping[int, float]
    bill: Mapping[str, float]
    idle_day: float
    seconds: float
    most_instances: Instances
    quotas: Mapping[Quota, RateLimit]
    curves: Curves

    @property
    def lost(self) -> int:
        """Voices of visitors who stayed that were never converted."""
        lost = (VoiceEnd.REFUSED, VoiceEnd.DEAD, VoiceEnd.UNDER_WAY)
        return sum(self.counts[outcome] for outcome in lost)

    @property
    def dollars(self) -> float:
        """The cost of the simulated time."""
        return sum(self.bill.values())


def summarise(simulation: Simulation) -> Summary:
    """Return the outcome of a simulation that is over."""
    weight, visits = simulation.arrivals.weight, simulation.visits
    ends = [visit.outcome for visit in visits]
    _, waits = waits_of(simulation)
    patience = simulation.parameters["visitor.patience"]
    met = [(quota, use) for quota, use in simulation.quotas.items() if use.first_met is not None]
    return Summary(
        settings=simulation.settings,
        visitors=simulation.arrivals.visitors,
        counts={outcome: weight * ends.count(outcome) for outcome in VoiceEnd},
        late=weight * int(((waits > patience) & np.isfinite(waits)).sum()),
        in_line=weight * sum(visit.turns > 0 for visit in visits),
        waits=percentiles(waits),
        bill=bill(simulation),
        idle_day=_idle_day(simulation.parameters, simulation.settings),
        seconds=simulation.arrivals.seconds,
        most_instances=simulation.most_instances,
        quotas=dict(sorted(met, key=lambda each: each[1].first_met or 0.0)),
        curves=_curves(simulation),
    )


def waits_of(simulation: Simulation) -> tuple[Numbers, Numbers]:
    """Return arrival and wait of each visitor who stayed, in seconds; infinite if lost."""
    stayed = [visit for visit in simulation.visits if visit.outcome is not VoiceEnd.LEFT]
    waits = [
        visit.ended - visit.released if visit.outcome is VoiceEnd.DONE else np.inf
        for visit in stayed
    ]
    return np.array([visit.arrived for visit in stayed]), np.array(waits, dtype=np.float64)


def percentiles(waits: Numbers) -> dict[int, float]:
    """Return the percentiles of waits; NaN if there are none."""
    if not len(waits):
        return dict.fromkeys(PERCENTILES, float("nan"))
    # An infinite neighbour must not make a finite percentile infinite.
    found = np.percentile(waits, PERCENTILES, method="inverted_cdf")
    return {which: float(value) for which, value in zip(PERCENTILES, found, strict=True)}


def bill(simulation: Simulation) -> dict[str, float]:
    """Compute the cost of the simulated time in US dollars, without the free quotas."""
    prices, settings = simulation.parameters, simulation.settings
    weight = simulation.arrivals.weight
    done = [visit for visit in simulation.visits if visit.outcome is VoiceEnd.DONE]
    voices = weight * len(done)
    container = (float(settings.convert_cpu), settings.gib)
    function = (prices["deployed.function_cpus"], prices["deployed.function_gib"])
    functions, containers = simulation.services[:2], simulation.services[2:]
    objects = OBJECT_WRITES * prices["price.object_write"]
    objects += OBJECT_READS * prices["price.object_read"]
    reads = prices["voice.documents_read"] + prices["voice.documents_listened"]
    later_writes = prices["voice.documents_written"] - 1
    created = prices["price.document_write"] + prices["price.document_expiry"]
    spoken = weight * sum(visit.spoken for visit in done)
    training = _second(prices, "job_", prices["training.cpus"], prices["training.gib"])
    character = prices["training.seconds"] * training + prices["training.besides"]
    found = {
        "converters at work": sum(each.active_area for each in containers)
        * _second(prices, "", *container),
        "idle minimum instances": simulation.convert.idle_area
        * _second(prices, "idle_", *container)
        + sum(each.idle_area for each in functions) * _second(prices, "idle_", *function),
        "functions at work": sum(each.active_area for each in functions)
        * _second(prices, "", *function),
        "requests": weight
        * sum(each.requests for each in simulation.services)
        * prices["price.request"],
        "Firestore": simulation.arrivals.visitors * created
        + voices
        * (later_writes * prices["price.document_write"] + reads * prices["price.document_read"]),
        "Cloud Storage": voices * objects,
        "Pub/Sub": voices
        * prices["voice.messages"]
        * (BYTES_OF_A_MESSAGE / 2.0**40)
        * prices["price.message_tib"],
        "results to the visitors": spoken
        * (prices["voice.result_bytes"] / GIB)
        * prices["price.gib_to_the_internet"],
    }
    if characters := prices["visitor.own_characters"]:
        found["characters of visitors' own voices"] = characters * character
    return found


def _second(prices: Parameters, kind: str, cpus: float, gib: float) -> float:
    cpu, memory = prices[f"price.{kind}cpu_second"], prices[f"price.{kind}gib_second"]
    return cpus * cpu + gib * memory


def _idle_day(prices: Parameters, settings: Settings) -> float:
    converter = _second(prices, "idle_", settings.convert_cpu, settings.gib)
    function = _second(
        prices, "idle_", prices["deployed.function_cpus"], prices["deployed.function_gib"]
    )
    hours, minimum = settings.busy_hours, settings.minimum
    more = 0.0 if hours is None else (hours.end - hours.begin) * 3600.0 * hours.min_instances
    functions = minimum.api + minimum.on_upload
    return converter * (86_400.0 * minimum.convert + more) + function * 86_400.0 * functions


def _curves(simulation: Simulation) -> Curves:
    arrivals, weight = simulation.arrivals, simulation.arrivals.weight
    interval = max(5.0, arrivals.seconds / CURVE_POINTS)
    count = int(np.ceil(arrivals.seconds / interval))
    arrived = np.histogram(arrivals.times, bins=count, range=(0, count * interval))[0]
    moments, waits = waits_of(simulation)
    bins = np.minimum((moments / interval).astype(np.int64), count - 1)
    p95, instances = np.full(count, np.nan), np.zeros(count)
    for index in np.unique(bins):
        p95[index] = np.percentile(waits[bins == index], 95, method="inverted_cdf")
    tick = simulation.parameters["cloud_run.tick"]
    for index, sample in enumerate(simulation.convert.samples):
        place = int(index * tick / interval)
        if place < count:
            instances[place] = max(instances[place], weight * sample)
    lost = weight * np.bincount(bins[np.isinf(waits)], minlength=count) / interval
    return Curves(interval, arrivals.begin, weight * arrived / interval, p95, instances, lost)
