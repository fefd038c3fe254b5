"""Measuring the local cloud in the situations that the simulator is to predict."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.capacity.guests import SPOKEN_SECONDS, Guests
from benchmarks.cold_start.scaled import InstanceState, scaled_cloud
from benchmarks.measuring.recordings import webm
from benchmarks.measuring.voice_journeys import visited_cloud
from benchmarks.pipeline.delivery import Deliveries
from benchmarks.pipeline.run import ProcessorTime
from infra.local.commands.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.cold_start.scaled import ScaledCloud
    from infra.local.cloud.cloud import LocalCloud

LOAD: Final = 0.7
BASE_LOAD: Final = 0.18
"""Of the saturation, before and after the crowd, which is five times that."""

FLASH: Final = 5.0
BURN_SECONDS: Final = 2.0
COLD_SITUATIONS: Final = {
    "cold, no warm-up": InstanceState.COLD,
    "cold, with warm-up": InstanceState.WARMING_UP,
}
AFTER_SECONDS: Final = 0.2
"""Until the converter has done what follows `done`: acknowledging and tidying up."""

OWN: Final = "visitors"
"""The benchmark's own process among the services: it visits, listens and delivers."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How many voices are sent how.

    Attributes:
        warm_ups: before anything is measured, as many at once as saturate the machine: Java
            compiles the emulators while they work, and until then a voice costs them twice as much.
        idle: one after another.
        saturating: always `AT_ONCE` under way.
        loaded: at random times.
        flash: likewise, before, during and after the crowd.
        cold: visits of a cloud that is scaled to zero, with warm-up and without.
        starts: of the converter, with a first visitor each.
        rest_seconds: how long it is watched what the services take at rest.
    """

    warm_ups: int
    idle: int
    saturating: int
    loaded: int
    flash: tuple[int, int, int]
    cold: int
    starts: int
    rest_seconds: float


FULL: Final = Extent(300, 80, 80, 300, (20, 150, 20), 20, 15, 10.0)
QUICK: Final = Extent(5, 10, 16, 16, (4, 16, 4), 2, 1, 2.0)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Voices that came at random times.

    Attributes:
        came: seconds after the first of them, in order.
        processor: seconds of processor time per voice, by service, everything included.
    """

    came: Sequence[float]
    processor: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Processor:
    """Seconds of processor time per voice, by service, where they were measured.

    A voice takes less where many are under way, because processes wake up less often for each.

    Attributes:
        idle: voices one after another, without what the services take at rest.
        busy: `AT_ONCE` always under way, everything included.
        scaled: like `idle`, in the cloud whose converter has the autoscaler's proxy before it.
        first_voice: what an instance's first voice takes more than its later ones.
    """

    idle: Mapping[str, float]
    busy: Mapping[str, float]
    scaled: Mapping[str, float]
    first_voice: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured.

    Attributes:
        waits: seconds from the end of the recording to `done`, by situation.
        refused: deliveries that were not acknowledged, by situation.
        saturation: voices a second with `AT_ONCE` visitors.
        crowds: voices at random times, by situation.
        processor: the processor time of voices.
        start: seconds from a warm-up to its answer, where no instance runs.
        free: processors that are left by what else runs on the machine.
    """

    waits: Mapping[str, Sequence[float]]
    refused: Mapping[str, int]
    saturation: float
    crowds: Mapping[str, Crowd]
    processor: Processor
    start: float
    free: float


@dataclass(frozen=True, slots=True)
class _Warm:
    """The measurements while the converter ran all the time."""

    waits: Mapping[str, Sequence[float]]
    refused: Mapping[str, int]
    saturation: float
    crowds: Mapping[str, Crowd]
    idle: Mapping[str, float]
    busy: Mapping[str, float]
    free: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Cold:
    """The measurements with a converter that comes and goes."""

    waits: Mapping[str, Sequence[float]]
    processor: Mapping[str, float]
    first_voice: float
    start: float


async def measure(plan: Extent) -> Measured:
    """Measure every situation."""
    warm = await _warm(plan)
    cold = await _cold(plan)
    return Measured(
        waits={**warm.waits, **cold.waits},
        refused=warm.refused,
        saturation=warm.saturation,
        crowds=warm.crowds,
        processor=Processor(warm.idle, warm.busy, cold.processor, cold.first_voice),
        start=cold.start,
        free=median(warm.free),
    )


async def _warm(plan: Extent) -> _Warm:
    async with visited_cloud(embedded=False) as visitors:
        cloud = visitors.cloud
        guests = Guests(cloud, Visitor(visitors.client, cloud.addresses.api, cloud.voices))
        deliveries = Deliveries(visitors.client, cloud.addresses)
        async with deliveries.at_once():
            await guests.saturate(plan.warm_ups)
            free = [await asyncio.to_thread(free_processors)]
            refused = {"while warming up": deliveries.refused}
            idle, waits = await _at_idle(guests, plan)
            refused["idle"] = _not_yet(deliveries, refused)
            busy, rate = await _saturated(guests, plan)
            refused["8 visitors at once"] = _not_yet(deliveries, refused)
            free.append(await asyncio.to_thread(free_processors))
            situations, crowds = {"idle": waits}, {}
            for situation, counts, rates in _crowds(plan, rate):
                situations[situation], crowds[situation] = await _at_random(guests, counts, rates)
                refused[situation] = _not_yet(deliveries, refused)
            free.append(await asyncio.to_thread(free_processors))
    return _Warm(situations, refused, rate, crowds, idle, busy, free)


def _crowds(plan: Extent, rate: float) -> tuple[tuple[str, Sequence[int], Sequence[float]], ...]:
    """Return name, numbers of voices and voices a second of what comes at random times."""
    base = BASE_LOAD * rate
    return (
        ("70 % load", (plan.loaded,), (LOAD * rate,)),
        ("crowd of 5x", plan.flash, (base, FLASH * base, base)),
    )


def _not_yet(deliveries: Deliveries, refused: Mapping[str, int]) -> int:
    """Count the refused that no earlier situation counts."""
    return deliveries.refused - sum(refused.values())


def free_processors() -> float:
    """Measure how many processors' time this program gets if it asks for all of them."""
    code = (
        f"import time; end = time.perf_counter() + {BURN_SECONDS}\n"
        "while time.perf_counter() < end: pass\nprint(time.process_time())"
    )
    cores = len(os.sched_getaffinity(0))
    burning = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(cores)
    ]
    seconds = [float(process.communicate()[0]) for process in burning]
    return min(float(cores), sum(seconds) / BURN_SECONDS)


class VoiceTime:
    """The processor time of all services and of this process, from now on.

    Args:
        cloud: whose services.
    """

    def __init__(self, cloud: LocalCloud) -> None:
        self._services = ProcessorTime(cloud.pids)
        self._own = time.process_time()
        self._begin = time.perf_counter()

    def per_voice(self, voices: int, rest: Mapping[str, float] | None = None) -> dict[str, float]:
        """Return the seconds per voice, by service.

        Args:
            voices: how many there were.
            rest: what each service takes in a second at rest, which is left out.
        """
        passed = (time.perf_counter() - self._begin) / voices
        # The services are children of this process; its own time does not hold theirs.
        own = (time.process_time() - self._own) / voices
        spent = {name: ms / 1000 for name, ms in self._services.spent(voices).items()}
        if rest is not None:
            spent = {name: max(0.0, each - rest[name] * passed) for name, each in spent.items()}
        return {**spent, OWN: own}


async def _at_idle(guests: Guests, plan: Extent) -> tuple[dict[str, float], list[float]]:
    """Return the processor seconds of a voice by service, and waits one after another."""
    resting = ProcessorTime(guests.cloud.pids)
    await asyncio.sleep(plan.rest_seconds)
    rest = {name: ms / 1000 / plan.rest_seconds for name, ms in resting.spent(1).items()}
    working = VoiceTime(guests.cloud)
    waits = await guests.one_by_one(plan.idle)
    return working.per_voice(len(waits), rest), waits


async def _saturated(guests: Guests, plan: Extent) -> tuple[dict[str, float], float]:
    """Return the processor seconds of a voice by service, and voices per second."""
    working = VoiceTime(guests.cloud)
    rate = await guests.saturate(plan.saturating)
    return working.per_voice(plan.saturating), rate


async def _at_random(
    guests: Guests, counts: Sequence[int], rates: Sequence[float]
) -> tuple[list[float], Crowd]:
    """Return the waits, and when these visitors came and what their voices took."""
    working = VoiceTime(guests.cloud)
    waits, came = await guests.at_random(counts, rates)
    return waits, Crowd(came, working.per_voice(len(waits)))


async def _cold(plan: Extent) -> _Cold:
    recording = webm(SPOKEN_SECONDS)
    async with scaled_cloud() as scaled:
        cloud = scaled.cloud
        guests = Guests(cloud, scaled.visitor)
        async with Deliveries(scaled.client, cloud.addresses).at_once():
            await guests.saturate(plan.warm_ups)
            processor, _ = await _at_idle(guests, plan)
            first = [await _first_visit(scaled, recording) for _ in range(plan.starts)]
            waits: dict[str, list[float]] = {name: [] for name in COLD_SITUATIONS}
            for _ in range(plan.cold):
                for name, state in COLD_SITUATIONS.items():
                    visit = await scaled.visit(state, recording, SPOKEN_SECONDS)
                    waits[name].append(visit.wait / 1000)
    starts, spent = zip(*first, strict=True)
    first_voice = max(0.0, median(spent) - processor["convert"])
    return _Cold(waits, processor, first_voice, median(starts))


async def _first_visit(scaled: ScaledCloud, recording: bytes) -> tuple[float, float]:
    """Start an instance and be its first visitor.

    Returns:
        The seconds that the start took, and those of the converter's processor time from the end of
        the recording on.
    """
    start = await scaled.start()
    pids = {"convert": scaled.cloud.pids["convert"]}
    begun: list[ProcessorTime] = []
    await scaled.visit(
        InstanceState.WARM, recording, SPOKEN_SECONDS, lambda: begun.append(ProcessorTime(pids))
    )
    await asyncio.sleep(AFTER_SECONDS)
    return start, begun[0].spent(1)["convert"] / 1000
