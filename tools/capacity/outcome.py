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

    def holds(self, waits: Numbers) -> bool:
        return percentiles(waits)[self.percentile] <= self.seconds


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of one simulation.

    Attributes:
        waits: of the visitors who stayed, in seconds; a lost voice waits forever.
        bill: US dollars of the simulated time.
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


def summarise(simulation: Simulation) -> Summary:
    """Return the outcome of a simulation that is over."""
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
    interval = max(5.0, arrivals.seconds / CURVE_POINTS)
    moments = np.array([visit.arrived for visit in stayed])
    return Summary(
        settings=simulation.settings,
        visitors=weight * len(arrivals.times),
        counts={outcome: weight * ends.count(outcome) for outcome in VoiceEnd},
        late=weight * int(((waits > patience) & np.isfinite(waits)).sum()),
        in_line=weight * sum(visit.turns > 0 for visit in simulation.visits),
        waits=waits,
        bill=bill(simulation),
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
    """Compute the cost of the simulated time in US dollars, without the free quotas."""
    prices, settings = simulation.parameters, simulation.settings
    weight = simulation.arrivals.weight
    done = [visit.spoken for visit in simulation.visits if visit.outcome is VoiceEnd.DONE]
    voices, spoken = weight * len(done), weight * sum(done)
    functions, containers = (
        (simulation.api, simulation.on_upload),
        (simulation.convert, simulation.live),
    )
    idle = simulation.convert.idle_area, sum(each.idle_area for each in functions)
    objects = OBJECT_WRITES * prices["price.object_write"]
    objects += OBJECT_READS * prices["price.object_read"]
    reads = prices["voice.documents_read"] + prices["voice.documents_listened"]
    later_writes = prices["voice.documents_written"] - 1
    created = prices["price.document_write"] + prices["price.document_expiry"]
    written = later_writes * prices["price.document_write"] + reads * prices["price.document_read"]
    found = {
        "converters at work": seconds_cost(
            prices, settings, "", sum(each.active_area for each in containers), 0.0
        ),
        "idle minimum instances": seconds_cost(prices, settings, "idle_", *idle),
        "functions at work": seconds_cost(
            prices, settings, "", 0.0, sum(each.active_area for each in functions)
        ),
        "requests": weight
        * sum(each.requests for each in simulation.services.values())
        * prices["price.request"],
        "Firestore": weight * len(simulation.visits) * created + voices * written,
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
        training = prices["training.cpus"] * prices["price.job_cpu_second"]
        training += prices["training.gib"] * prices["price.job_gib_second"]
        character = prices["training.seconds"] * training + prices["training.besides"]
        found["characters of visitors' own voices"] = characters * character
    return found


def seconds_cost(
    parameters: Parameters, settings: Settings, kind: str, converters: float, functions: float
) -> float:
    """Return the price of so many seconds of converters and of functions."""
    cpu, gib = (parameters[f"price.{kind}{name}_second"] for name in ("cpu", "gib"))
    converter = settings.convert_cpu * cpu + settings.gib * gib
    function = (
        parameters["deployed.function_cpus"] * cpu + parameters["deployed.function_gib"] * gib
    )
    return converters * converter + functions * function


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
