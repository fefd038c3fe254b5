"""The search for the cheapest settings that keep a target, and the simulations side by side.

Candidates are compared on the busiest half hour, in which all but a few of the long waits lie; the
waits of the other hours come from one simulation of the whole time. What is found is simulated
over the whole time at the end.
"""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import Manager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tools.capacity.arrivals import Arrivals, CrowdForecast
from tools.capacity.outcome import Numbers, Summary, percentiles, summarise, waits_of
from tools.capacity.parameters import PlanningError
from tools.capacity.settings import BusyHours, Instances, Quota, Signing
from tools.capacity.simulation import Allowance, Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.capacity.outcome import Target
    from tools.capacity.parameters import Parameters
    from tools.capacity.settings import Settings

BUSIEST_SECONDS: Final = 1_800.0
BEFORE_SECONDS: Final = 300.0
"""The busiest part begins this long before the busiest minute."""

CONVERTERS: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Minimum instances of the converter in the busiest hours."""

CPUS: Final = (1, 2, 4)
FUNCTIONS: Final = ((0, 1, 500), (1, 1, 500), (1, 1, 50), (2, 2, 20), (8, 8, 20), (24, 16, 20))
"""Minimum instances of api and on_upload, and the api's concurrency: the dearer, the later."""

FEW: Final = 5_000.0
"""Visitors of a day who hardly ever meet."""

MOST_CHECKS: Final = 3
MOST_SHARDS: Final = 32
"""The most that Terraform's `upload_shards` allows."""

OF_BUCKETS: Final = frozenset({Quota.UPLOADS_WRITES, Quota.UPLOADS_READS, Quota.RESULTS_WRITES})

_Result = TypeVar("_Result")


def _ignore(voices: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs simulations of the same visitors in two processes."""

    parameters: Parameters
    seed: int = 0
    told: Callable[[int], None] = _ignore

    def run(
        self,
        deployments: Sequence[Settings],
        arrivals: Arrivals,
        result: Callable[[Simulation], _Result],
        allowance: Allowance | None = None,
    ) -> list[_Result]:
        """Return `result` of the simulation of each deployment."""
        # What tells the progress stays in this process.
        runner = replace(self, told=_ignore)
        simulate = partial(
            _simulate, arrivals=arrivals, runner=runner, allowance=allowance, result=result
        )
        if len(deployments) == 1 and len(arrivals.times) < FEW:
            return [simulate(deployments[0], told=self.told)]
        with Manager() as manager, ProcessPoolExecutor(2) as processes:
            ended = manager.Queue()
            running = [processes.submit(simulate, each, told=ended.put) for each in deployments]
            while wait(running, timeout=0.1).not_done or not ended.empty():
                while not ended.empty():
                    self.told(ended.get())
            return [each.result() for each in running]


def _simulate(
    settings: Settings,
    *,
    arrivals: Arrivals,
    runner: Runner,
    told: Callable[[int], None],
    allowance: Allowance | None,
    result: Callable[[Simulation], Any],
) -> Any:
    parameters, seed = runner.parameters, runner.seed
    simulation = Simulation(parameters, settings, arrivals, seed=seed, told=told)
    return result(simulation.run(allowance))


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search."""

    summary: Summary
    holds: bool
    in_the_way: tuple[Quota, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate on the busiest part; `dollars` has a whole day's idle instances."""

    settings: Settings
    waits: dict[int, float]
    dollars: float
    met: tuple[Quota, ...]


def search(
    runner: Runner,
    target: Target,
    arrivals: Arrivals,
    settings: Settings,
    day: tuple[Numbers, Numbers],
) -> Found:
    """Return the cheapest settings that keep the target.

    Where quotas prevent that, signBlob's is avoided by an HMAC key, those of buckets by more
    buckets, and the others are lifted. `day` has arrivals and waits of a simulation with
    `settings`.

    Raises:
        PlanningError: not even a single visitor could be served as fast.
    """
    _require_possible(runner, target, settings)
    part = _Part.cut(runner, target, arrivals, settings, day)
    while True:
        best = part.best()
        if target.holds(best.waits) or not best.met:
            break
        part = part.with_settings(_without(best.met, part.settings), arrivals)
    chosen = part.cheapest().settings
    lifted = part.settings.lifted - settings.lifted
    for _ in range(MOST_CHECKS):
        (summary,) = runner.run([chosen], arrivals, summarise)
        if target.holds(summary.waits):
            break
        # The busiest part was too kind.
        chosen = _warmer(chosen)
    in_the_way = tuple(quota for quota in Quota if quota in lifted)
    return Found(summary, target.holds(summary.waits), in_the_way)


def _require_possible(runner: Runner, target: Target, settings: Settings) -> None:
    few = CrowdForecast(per_day=FEW).arrivals(runner.parameters, np.random.default_rng(runner.seed))
    idle = replace(settings, minimum=Instances(2, 2, 2), lifted=frozenset(Quota))
    ((_, waits),) = runner.run([idle], few, waits_of)
    alone = percentiles(waits)
    if not target.holds(alone):
        raise PlanningError(
            f"No settings can keep {target}: p{target.percentile} is "
            f"{alone[target.percentile]:.2f} s even where every visitor finds idle instances and "
            "no quota is near, by the durations in tools/capacity/parameters.toml."
        )


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
    """Return settings with twice as many warm converters, within the maximum."""
    hours, most = settings.busy_hours, settings.maximum.convert
    if hours is None:
        return settings.with_minimum(min(most, 2 * settings.minimum.convert + 1))
    more = min(most, 2 * hours.min_instances + 1)
    return replace(settings, busy_hours=replace(hours, min_instances=more))


@dataclass(frozen=True, slots=True)
class _Part:
    """The busiest part of the simulated time, and the waits of the rest."""

    runner: Runner
    target: Target
    settings: Settings
    arrivals: Arrivals
    rest: Numbers
    is_whole: bool

    @classmethod
    def cut(
        cls,
        runner: Runner,
        target: Target,
        whole: Arrivals,
        settings: Settings,
        day: tuple[Numbers, Numbers],
    ) -> _Part:
        minutes = max(1, round(whole.seconds / 60))
        counts = np.histogram(whole.times, bins=minutes, range=(0.0, whole.seconds))[0]
        begin = 60.0 * float(counts.argmax()) - BEFORE_SECONDS
        begin = max(0.0, min(begin, whole.seconds - BUSIEST_SECONDS))
        end = min(whole.seconds, begin + BUSIEST_SECONDS)
        part = _within(whole, begin, end)
        arrived, waits = day
        rest = waits[(arrived < begin) | (arrived >= end)]
        return cls(runner, target, settings, part, rest, is_whole=part.seconds >= whole.seconds)

    def with_settings(self, settings: Settings, whole: Arrivals) -> _Part:
        """Return it with other settings; the rest is simulated again if it alone is too slow."""
        rest = self.rest
        if len(rest) and not self.target.holds(percentiles(rest)):
            begin = self.arrivals.begin - whole.begin
            is_out = (whole.times < begin) | (whole.times >= begin + self.arrivals.seconds)
            quiet = replace(whole, times=whole.times[is_out], spoken=whole.spoken[is_out])
            ((_, rest),) = self.runner.run([settings], quiet, waits_of)
        return replace(self, settings=settings, rest=rest)

    def best(self) -> Trial:
        """Return the dearest candidate."""
        return self._try(
            [self._candidate(FUNCTIONS[-1], self.settings.convert_cpu, CONVERTERS[-1])]
        )[0]

    def cheapest(self) -> Trial:
        """Return the cheapest candidate that holds, or the fastest if none does."""
        cpus = self.settings.convert_cpu
        found = self._first_that_holds(
            [self._candidate(functions, cpus, CONVERTERS[-1]) for functions in FUNCTIONS]
        )
        functions = FUNCTIONS[-1] if found is None else FUNCTIONS[found[0]]
        # Most crowds need no warm converters, because on-demand scaling is fast enough.
        trials = self._try([self._candidate(functions, each, CONVERTERS[0]) for each in CPUS])
        for each, trial in zip(CPUS, list(trials), strict=True):
            if not self.target.holds(trial.waits):
                warm = [self._candidate(functions, each, count) for count in CONVERTERS[1:]]
                holding = self._first_that_holds(warm)
                trials += [holding[1]] if holding is not None else []
        holds = [trial for trial in trials if self.target.holds(trial.waits)]
        if holds:
            return min(holds, key=lambda trial: trial.dollars)
        dearest = [self._candidate(functions, each, CONVERTERS[-1]) for each in CPUS]
        trials = self.runner.run(dearest, self.arrivals, partial(_trial, self.rest))
        return min(trials, key=lambda trial: trial.waits[self.target.percentile])

    def _first_that_holds(self, candidates: Sequence[Settings]) -> tuple[int, Trial] | None:
        """Return the first candidate that holds, where each is better than those before it."""
        low, high = 0, len(candidates) - 1
        best: tuple[int, Trial] | None = None
        while low <= high:
            # Two simulations run side by side.
            places = sorted({low + (high - low) // 3, low + 2 * (high - low) // 3})
            trials = self._try([candidates[place] for place in places])
            for place, trial in zip(places, trials, strict=True):
                if self.target.holds(trial.waits):
                    best, high = (place, trial), place - 1
                    break
                low = place + 1
        return best

    def _candidate(self, functions: tuple[int, int, int], cpus: int, converters: int) -> Settings:
        api, on_upload, concurrency = functions
        most, begin = self.settings.maximum, self.arrivals.begin
        warm = min(converters, most.convert)
        first, last = int(begin // 3600), min(24, math.ceil((begin + self.arrivals.seconds) / 3600))
        convert = warm if self.is_whole else min(1, warm)
        is_always = self.is_whole or converters <= 1
        return replace(
            self.settings,
            minimum=Instances(min(api, most.api), min(on_upload, most.on_upload), convert),
            busy_hours=None if is_always else BusyHours(first, last, warm),
            convert_cpu=cpus,
            convert_concurrency=None,
            api_concurrency=concurrency,
        )

    def _try(self, candidates: Sequence[Settings]) -> list[Trial]:
        """Simulate candidates, each until it is certain that it does not hold."""
        share = 1.0 - self.target.percentile / 100.0
        voices = len(self.rest) + len(self.arrivals.times)
        late = math.ceil(share * voices) - int((self.rest > self.target.seconds).sum())
        allowance = Allowance(self.target.seconds, max(0, late))
        return self.runner.run(candidates, self.arrivals, partial(_trial, self.rest), allowance)


def _within(whole: Arrivals, begin: float, end: float) -> Arrivals:
    is_in = (whole.times >= begin) & (whole.times < end)
    times, spoken = whole.times[is_in] - begin, whole.spoken[is_in]
    return replace(
        whole, times=times, spoken=spoken, seconds=end - begin, begin=whole.begin + begin
    )


def _trial(rest: Numbers, simulation: Simulation) -> Trial:
    summary, (_, waits) = summarise(simulation), waits_of(simulation)
    dollars = summary.dollars - summary.bill["idle minimum instances"] + summary.idle_day
    return Trial(
        summary.settings,
        percentiles(np.concatenate((rest, waits))),
        dollars,
        tuple(summary.quotas),
    )
