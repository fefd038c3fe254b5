"""The result of a simulation, in the few numbers that an operator decides by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from capacity.choice.cost import bill
from capacity.engine import state
from capacity.model.way import QUOTAS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capacity.choice.cost import Bill
    from capacity.model.settings import Instances, Quota, Settings
    from capacity.model.simulation import Simulation

PERCENTILES: Final = (50, 95, 99)

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """How near a quota came.

    Attributes:
        most_in_second: the most that was asked for in one second.
        delayed: how often somebody had to wait for it.
        refused: how often it refused somebody.
        first_met: second of the day at which it first bound, or None.
    """

    most_in_second: float
    delayed: int
    refused: int
    first_met: float | None


@dataclass(frozen=True, slots=True)
class Curves:
    """Courses over the simulated time, one value for each interval.

    Attributes:
        interval: seconds.
        begin: second of the day at which the first interval begins.
        arrivals: visitors a second.
        p50: median wait of the voices whose visitors let go of the button then, in seconds; not a
            number where there were none.
        p95: their 95th percentile.
        instances: of the converter, the most in the interval.
        lost: voices refused or given up, a second.
    """

    interval: float
    begin: float
    arrivals: Numbers
    p50: Numbers
    p95: Numbers
    instances: Numbers
    lost: Numbers


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of one simulation.

    Attributes:
        settings: the deployment.
        visitors: how many came.
        left: of them went away before the upload.
        done: voices that were converted.
        refused: voices that were refused before a message about them was out.
        dead: voices whose message was given up.
        under_way: voices that had no end an hour after the last arrival.
        late: voices that were done after the visitor's patience.
        in_line: visitors who were asked to come back a little later.
        waits: percentiles of the wait by `PERCENTILES`, in seconds; a voice that was refused,
            given up or under way has waited for ever.
        bill: what the simulated time cost.
        seconds: how long the simulated time was.
        most_instances: the most that each service had at once.
        quotas: the use of each quota.
        curves: courses.
    """

    settings: Settings
    visitors: int
    left: int
    done: int
    refused: int
    dead: int
    under_way: int
    late: int
    in_line: int
    waits: Mapping[int, float]
    bill: Bill
    seconds: float
    most_instances: Instances
    quotas: Mapping[Quota, QuotaUse]
    curves: Curves

    @property
    def lost(self) -> int:
        """Voices that were never converted, though their visitors stayed."""
        return self.refused + self.dead + self.under_way

    @property
    def binding(self) -> list[Quota]:
        """The quotas that were met, the first one first."""
        met = {quota: use.first_met for quota, use in self.quotas.items()}
        return sorted(
            (quota for quota, moment in met.items() if moment is not None),
            key=lambda quota: met[quota] or 0.0,
        )


def summarise(simulation: Simulation) -> Summary:
    """Return the outcome of a simulation that is over."""
    voices = simulation.world.voices
    outcomes = np.bincount(voices["outcome"], minlength=5)
    waits = waits_of(simulation)
    patience = simulation.parameters["visitor.patience"]
    return Summary(
        settings=simulation.settings,
        visitors=len(voices),
        left=int(outcomes[state.LEFT]),
        done=int(outcomes[state.DONE]),
        refused=int(outcomes[state.REFUSED]),
        dead=int(outcomes[state.DEAD]),
        under_way=int(outcomes[state.UNDER_WAY]),
        late=int(((waits > patience) & np.isfinite(waits)).sum()),
        in_line=int((voices["turns"] > 0).sum()),
        waits=percentiles(waits),
        bill=bill(simulation),
        seconds=simulation.arrivals.seconds,
        most_instances=simulation.most_instances,
        quotas={quota: _use(simulation, quota) for quota in QUOTAS},
        curves=_curves(simulation, waits),
    )


@dataclass(frozen=True, slots=True)
class Waited:
    """How long each visitor who stayed waited after the recording.

    Attributes:
        arrived: when each came, in seconds from the begin.
        seconds: the wait; infinite where no result ever came, so that losing voices never looks
            like speed.
    """

    arrived: Numbers
    seconds: Numbers


def waited(simulation: Simulation) -> Waited:
    """Return the waits of a simulation that is over, with the arrivals."""
    voices = simulation.world.voices
    stayed = voices[voices["outcome"] != state.LEFT]
    waits = np.where(stayed["outcome"] == state.DONE, stayed["ended"] - stayed["released"], np.inf)
    return Waited(stayed["arrived"].copy(), np.asarray(waits, dtype=np.float64))


def waits_of(simulation: Simulation) -> Numbers:
    """Return the waits alone."""
    return waited(simulation).seconds


def percentiles(waits: Numbers) -> dict[int, float]:
    """Return the percentiles of waits, not a number where there are none."""
    if not len(waits):
        return dict.fromkeys(PERCENTILES, float("nan"))
    # An infinite neighbour must not make a finite one so.
    found = np.percentile(waits, PERCENTILES, method="inverted_cdf")
    return {which: float(value) for which, value in zip(PERCENTILES, found, strict=True)}


def _use(simulation: Simulation, quota: Quota) -> QuotaUse:
    one = simulation.quota(quota)
    met = float(one["first_met"])
    return QuotaUse(
        most_in_second=float(one["most_in_second"]),
        delayed=int(one["delayed"]),
        refused=int(one["refused"]),
        first_met=None if met < 0 else met + simulation.arrivals.begin,
    )


def _curves(simulation: Simulation, waits: Numbers) -> Curves:
    seconds = simulation.arrivals.seconds
    interval = max(5.0, seconds / 288)
    count = int(np.ceil(seconds / interval))
    voices = simulation.world.voices
    stayed = voices[voices["outcome"] != state.LEFT]
    released = np.where(stayed["released"] > 0, stayed["released"], stayed["arrived"])
    bins = np.minimum((released / interval).astype(np.int64), count - 1)
    arrived = np.histogram(voices["arrived"], bins=count, range=(0, count * interval))[0]
    p50, p95 = np.full(count, np.nan), np.full(count, np.nan)
    order = np.argsort(bins, kind="stable")
    edges = np.searchsorted(bins[order], np.arange(count + 1))
    for index in range(count):
        part = waits[order[edges[index] : edges[index + 1]]]
        if len(part):
            p50[index], p95[index] = np.percentile(part, (50, 95), method="inverted_cdf")
    lost = np.bincount(bins[np.isinf(waits)], minlength=count) / interval
    return Curves(
        interval,
        simulation.arrivals.begin,
        arrived / interval,
        p50,
        p95,
        _most_instances(simulation, interval, count),
        lost,
    )


def _most_instances(simulation: Simulation, interval: float, count: int) -> Numbers:
    clock = simulation.world.clock[0]
    samples = simulation.world.samples["instances"][: int(clock["ticks"]), 2]
    moments = np.arange(len(samples)) * float(clock["tick"])
    bins = (moments / interval).astype(np.int64)
    most = np.zeros(count)
    inside = bins < count
    np.maximum.at(most, bins[inside], samples[inside])
    return most
