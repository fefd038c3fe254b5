"""Looking for the cheapest settings that keep a target.

Simulating the whole day for each candidate would take too long, so candidates are compared on the
busiest part of it, in which all but a few of the long waits lie; the waits of the other hours are
taken from one simulation of the whole day. A candidate is given up as soon as too many voices were
late. What is found is simulated over the whole day at last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from capacity.choice.cost import bill
from capacity.choice.summary import percentiles, summarise, waits_of
from capacity.model.arrivals import Arrivals, Crowd
from capacity.model.errors import PlanningError
from capacity.model.settings import BusyHours, Instances, Quota, Signing
from capacity.model.simulation import Allowance
from capacity.model.way import QUOTAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capacity.choice.summary import Numbers, Summary, Waited
    from capacity.choice.target import Target
    from capacity.model.running import Runner
    from capacity.model.settings import Settings
    from capacity.model.simulation import Simulation

BUSIEST_SECONDS: Final = 1_800.0
BEFORE_SECONDS: Final = 300.0
"""How long before the busiest moment the busiest part begins."""

CONVERTERS: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Minimum instances of the converter in the busiest hours."""

CPUS: Final = (1, 2, 4)

FUNCTIONS: Final = ((0, 1, 500), (1, 1, 500), (1, 1, 50), (2, 2, 20), (8, 8, 20), (24, 16, 20))
"""Minimum instances of api and on_upload, and the api's concurrency: the dearer, the later."""

FEW: Final = 5_000.0
"""So few visitors of a day hardly ever meet."""

MOST_CHECKS: Final = 3

OF_BUCKETS: Final = frozenset({Quota.UPLOADS_WRITES, Quota.UPLOADS_READS, Quota.RESULTS_WRITES})
"""Quotas that more buckets raise."""

MOST_SHARDS: Final = 32
"""The most that Terraform's `upload_shards` allows."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate on the busiest part.

    Attributes:
        settings: the deployment.
        waits: percentiles of the wait over the day, the other hours included.
        dollars: what the busiest part costs at work, and a day's idle instances.
        met: the quotas that were met.
    """

    settings: Settings
    waits: dict[int, float]
    dollars: float
    met: tuple[Quota, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to.

    Attributes:
        summary: of the cheapest settings that were found, over the whole day.
        holds: whether they keep the target.
        in_the_way: quotas that had to be taken not to bind.
    """

    summary: Summary
    holds: bool
    in_the_way: tuple[Quota, ...]


@dataclass(slots=True)
class Search:
    """A search for the cheapest settings.

    Attributes:
        runner: runs the simulations.
        target: what is wanted.
        arrivals: the visitors of the whole time.
        settings: what is not searched for.
        day: how long the visitors waited with these settings.
    """

    runner: Runner
    target: Target
    arrivals: Arrivals
    settings: Settings
    day: Waited

    def run(self) -> Found:
        """Return the cheapest settings that hold.

        Where none do because quotas are in the way, addresses are signed without signBlob if its
        quota is one of them; the others are lifted, and what was found says which.

        Raises:
            PlanningError: nobody could keep the target, not even for a single visitor.
        """
        self._require_possible()
        part = _Part.cut(self)
        while True:
            plenty = part.plenty()
            if self.target.holds(plenty.waits) or not plenty.met:
                break
            part = part.with_settings(_without(plenty.met, part.settings))
        return self._checked(part.cheapest(), part.settings.lifted - self.settings.lifted)

    def _require_possible(self) -> None:
        chance = np.random.default_rng(self.runner.seed)
        few = Crowd(per_day=FEW).arrivals(self.runner.parameters, chance)
        idle = replace(self.settings, minimum=Instances(2, 2, 2), lifted=frozenset(Quota))
        (waits,) = self.runner.run([idle], few, waits_of)
        alone = percentiles(waits)
        if not self.target.holds(alone):
            raise PlanningError(
                f"No settings can keep {self.target}: p{self.target.percentile} is "
                f"{alone[self.target.percentile]:.2f} s even where every visitor finds idle "
                "instances and no quota is near, by the durations in"
                " capacity/model/parameters.toml."
            )

    def _checked(self, trial: Trial, lifted: frozenset[Quota]) -> Found:
        """Simulate the whole day, with more warm converters where the busiest part was too kind."""
        settings = trial.settings
        in_the_way = tuple(quota for quota in QUOTAS if quota in lifted)
        for _ in range(MOST_CHECKS):
            (summary,) = self.runner.run([settings], self.arrivals, summarise)
            if self.target.holds(summary.waits):
                return Found(summary, holds=True, in_the_way=in_the_way)
            settings = _warmer(settings)
        return Found(summary, holds=False, in_the_way=in_the_way)


def _without(met: Sequence[Quota], settings: Settings) -> Settings:
    """Return settings under which these quotas no longer bind."""
    if Quota.SIGN_BLOB in met:
        settings = replace(settings, signing=Signing.HMAC)
    others = frozenset(met) - {Quota.SIGN_BLOB}
    if others & OF_BUCKETS and settings.upload_shards < MOST_SHARDS:
        settings = replace(settings, upload_shards=min(MOST_SHARDS, 4 * settings.upload_shards))
        others -= OF_BUCKETS
    return replace(settings, lifted=settings.lifted | others)


def _warmer(settings: Settings) -> Settings:
    """Return settings with twice as many warm converters, as far as that is allowed."""
    hours, most = settings.busy_hours, settings.maximum.convert
    if hours is None:
        return settings.with_minimum(min(most, 2 * settings.minimum.convert + 1))
    more = min(most, 2 * hours.min_instances + 1)
    return replace(settings, busy_hours=replace(hours, min_instances=more))


@dataclass(frozen=True, slots=True)
class _Part:
    """The busiest part of the simulated time, and the waits of the rest of it."""

    search: Search
    settings: Settings
    arrivals: Arrivals
    rest: Numbers

    @classmethod
    def cut(cls, search: Search) -> _Part:
        """Take the busiest part out; of the rest it is known how long its visitors waited."""
        whole, day = search.arrivals, search.day
        begin = _busiest(whole)
        end = min(whole.seconds, begin + BUSIEST_SECONDS)
        is_in = (whole.times >= begin) & (whole.times < end)
        part = Arrivals(
            whole.times[is_in] - begin, whole.spoken[is_in], end - begin, whole.begin + begin
        )
        rest = day.seconds[(day.arrived < begin) | (day.arrived >= end)]
        return cls(search, search.settings, part, rest)

    def with_settings(self, settings: Settings) -> _Part:
        """Return it with other settings; where the rest is too slow by itself, it is run anew."""
        whole, begin = self.search.arrivals, self.arrivals.begin - self.search.arrivals.begin
        rest = self.rest
        if len(rest) and not self.search.target.holds(percentiles(rest)):
            is_out = (whole.times < begin) | (whole.times >= begin + self.arrivals.seconds)
            quiet = Arrivals(whole.times[is_out], whole.spoken[is_out], whole.seconds, whole.begin)
            (rest,) = self.search.runner.run([settings], quiet, waits_of)
        return replace(self, settings=settings, rest=rest)

    def plenty(self) -> Trial:
        """Return the dearest candidate."""
        cpus = self.settings.convert_cpu
        (trial,) = self._try([self._candidate(FUNCTIONS[-1], cpus, CONVERTERS[-1])])
        return trial

    def cheapest(self) -> Trial:
        """Return the cheapest candidate that holds, or the best of the dearest if none does."""
        functions = self._least_functions()
        # Most crowds need no warm converters, because on-demand scaling is fast enough.
        fewest = self._try([self._candidate(functions, cpus, CONVERTERS[0]) for cpus in CPUS])
        found = [
            trial if self._holds(trial) else self._least_converters(functions, cpus)
            for cpus, trial in zip(CPUS, fewest, strict=True)
        ]
        holding = [trial for trial in found if trial is not None]
        if holding:
            return min(holding, key=lambda trial: trial.dollars)
        dearest = [self._candidate(functions, cpus, CONVERTERS[-1]) for cpus in CPUS]
        trials = self.search.runner.run(dearest, self.arrivals, self._tell)
        return min(trials, key=lambda trial: trial.waits[self.search.target.percentile])

    def _least_functions(self) -> tuple[int, int, int]:
        """Return the least of the functions' settings that hold with converters in plenty."""
        cpus = self.settings.convert_cpu
        found = self._first_that_holds(
            [self._candidate(functions, cpus, CONVERTERS[-1]) for functions in FUNCTIONS]
        )
        return FUNCTIONS[-1 if found is None else found[0]]

    def _least_converters(self, functions: tuple[int, int, int], cpus: int) -> Trial | None:
        """Return the candidate with the fewest warm converters, one or more, that hold."""
        found = self._first_that_holds(
            [self._candidate(functions, cpus, converters) for converters in CONVERTERS[1:]]
        )
        return None if found is None else found[1]

    def _first_that_holds(self, candidates: Sequence[Settings]) -> tuple[int, Trial] | None:
        """Return the first candidate that holds, where each is better than those before it.

        Two at a time, because two simulations run side by side.
        """
        low, high = 0, len(candidates) - 1
        best: tuple[int, Trial] | None = None
        while low <= high:
            places = sorted({low + (high - low) // 3, low + 2 * (high - low) // 3})
            trials = self._try([candidates[place] for place in places])
            for place, trial in zip(places, trials, strict=True):
                if self._holds(trial):
                    best, high = (place, trial), place - 1
                    break
                low = place + 1
        return best

    def _holds(self, trial: Trial) -> bool:
        return self.search.target.holds(trial.waits)

    def _candidate(self, functions: tuple[int, int, int], cpus: int, converters: int) -> Settings:
        api, on_upload, concurrency = functions
        maximum = self.settings.maximum
        always = min(1, converters)
        begin, seconds = self.arrivals.begin, self.arrivals.seconds
        first, last = int(begin // 3600), int(min(24, -(-(begin + seconds) // 3600)))
        is_whole = self.search.arrivals.seconds <= self.arrivals.seconds
        hours = BusyHours(first, last, min(converters, maximum.convert))
        return replace(
            self.settings,
            minimum=Instances(
                min(api, maximum.api),
                min(on_upload, maximum.on_upload),
                min(converters if is_whole else always, maximum.convert),
            ),
            busy_hours=None if is_whole or converters <= 1 else hours,
            convert_cpu=cpus,
            convert_concurrency=None,
            api_concurrency=concurrency,
        )

    def _try(self, candidates: Sequence[Settings]) -> list[Trial]:
        """Simulate candidates, each until it is sure that it does not hold."""
        runner = self.search.runner
        return runner.run(candidates, self.arrivals, self._tell, self._allowance())

    def _allowance(self) -> Allowance:
        """Count the voices of the part that may be late; visitors who leave only lower it."""
        target = self.search.target
        share = 1.0 - target.percentile / 100.0
        late = int((self.rest > target.seconds).sum())
        most = math.ceil(share * len(self.search.arrivals.times)) - late
        return Allowance(target.seconds, max(0, most))

    def _tell(self, simulation: Simulation) -> Trial:
        waits = np.concatenate((self.rest, waits_of(simulation)))
        cost, settings = bill(simulation), simulation.settings
        met = tuple(quota for quota in QUOTAS if float(simulation.quota(quota)["first_met"]) >= 0.0)
        dollars = cost.together - cost.idle + _idle_day(simulation)
        return Trial(settings, percentiles(waits), dollars, met)


def _idle_day(simulation: Simulation) -> float:
    """Compute the cost of a day's minimum instances that have nothing to do."""
    prices, settings = simulation.parameters, simulation.settings
    cpu, memory = prices["price.idle_cpu_second"], prices["price.idle_gib_second"]
    converter = settings.convert_cpu * cpu + settings.gib * memory
    function = prices["deployed.function_cpus"] * cpu + prices["deployed.function_gib"] * memory
    hours = settings.busy_hours
    more = 0.0 if hours is None else (hours.end - hours.begin) * 3600.0 * hours.min_instances
    return converter * (86_400.0 * settings.minimum.convert + more) + function * 86_400.0 * (
        settings.minimum.api + settings.minimum.on_upload
    )


def _busiest(arrivals: Arrivals) -> float:
    """Return when the busiest part begins: a little before the busiest minute."""
    minutes = max(1, round(arrivals.seconds / 60))
    counts = np.histogram(arrivals.times, bins=minutes, range=(0.0, arrivals.seconds))[0]
    busiest = 60.0 * float(counts.argmax())
    return max(0.0, min(busiest - BEFORE_SECONDS, arrivals.seconds - BUSIEST_SECONDS))
