"""Measuring the local cloud in the situations that the simulator is to predict."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.cold_start.scaled import InstanceState, scaled_cloud
from benchmarks.cold_start.starting import Starter
from benchmarks.measuring.recordings import CONTENT_TYPE, webm
from benchmarks.measuring.voice_journeys import AT_ONCE, LISTENING_SECONDS, off_beat, visited_cloud
from benchmarks.pipeline.delivery import Deliveries
from benchmarks.pipeline.run import ProcessorTime
from infra.local.visitor import Visitor, Wish

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.local.cloud import LocalCloud

SPOKEN_SECONDS: Final = 3.0
LOAD: Final = 0.7
BASE_LOAD: Final = 0.18
"""Of the saturation, before and after the crowd, which is five times that."""

FLASH: Final = 5.0
BURN_SECONDS: Final = 2.0
OWN: Final = "visitors"
"""The benchmark's own process among the services: it visits, listens and delivers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How many voices are sent how.

    Attributes:
        warm_ups: before anything is measured, as many at once as saturate the machine: Java
            compiles the emulators while they work, and until then a voice costs them twice as much.
        idle: one after another.
        saturating: always `AT_ONCE` under way.
        loaded: at random times.
        flash: likewise, before, during and after the crowd.
        cold: visits of a cloud that is scaled to zero, with warm-up and without.
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


FULL: Final = Plan(300, 80, 80, 200, (20, 150, 20), 20, 5, 10.0)
QUICK: Final = Plan(5, 10, 16, 16, (4, 16, 4), 2, 1, 2.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured.

    Attributes:
        waits: seconds from the end of the recording to `done`, by situation.
        saturation: voices a second with `AT_ONCE` visitors.
        processor: seconds of processor time per voice, by service, without what it takes at rest.
        start: seconds that the converter takes from exec to ready.
        free: processors that are left by what else runs on the machine.
    """

    waits: Mapping[str, Sequence[float]]
    saturation: float
    processor: Mapping[str, float]
    start: float
    free: float


async def measure(plan: Plan) -> Measured:
    """Measure every situation."""
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as name:
        start = await asyncio.to_thread(measure_start, Path(name), plan.starts)
    async with visited_cloud(embedded=False) as visitors:
        cloud = visitors.cloud
        guests = Guests(cloud, Visitor(visitors.client, cloud.addresses.api, cloud.voices))
        async with Deliveries(visitors.client, cloud.addresses).at_once():
            await guests.saturate(plan.warm_ups)
            free = [await asyncio.to_thread(free_processors)]
            processor, idle = await _at_idle(guests, plan)
            rate = await guests.saturate(plan.saturating)
            free.append(await asyncio.to_thread(free_processors))
            loaded = await guests.at_random((plan.loaded,), (LOAD * rate,))
            base = BASE_LOAD * rate
            flash = await guests.at_random(plan.flash, (base, FLASH * base, base))
            free.append(await asyncio.to_thread(free_processors))
    waits = {"idle": idle, "70 % load": loaded, "crowd of 5x": flash, **await _cold(plan)}
    return Measured(waits, rate, processor, start, median(free))


def measure_start(folder: Path, count: int) -> float:
    """Return the median seconds from exec to ready of the converter alone, compiled."""
    starter = Starter(folder / "compiled", has_bytecode=True)
    starter.start_converter()
    return median(starter.start_converter().milliseconds for _ in range(count)) / 1000


def free_processors() -> float:
    """Return how many processors' time this program gets if it asks for all of them."""
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


async def _at_idle(guests: Guests, plan: Plan) -> tuple[dict[str, float], list[float]]:
    """Return the processor seconds of a voice by service, and waits one after another."""
    resting = ProcessorTime(guests.cloud.pids)
    await asyncio.sleep(plan.rest_seconds)
    rest = {name: ms / 1000 / plan.rest_seconds for name, ms in resting.spent(1).items()}
    working, begin, own = ProcessorTime(guests.cloud.pids), time.perf_counter(), time.process_time()
    waits = await guests.one_by_one(plan.idle)
    seconds = (time.perf_counter() - begin) / len(waits)
    # The services are children of this process; its own time does not hold theirs.
    own = (time.process_time() - own) / len(waits)
    spent = {name: ms / 1000 for name, ms in working.spent(len(waits)).items()}
    processor = {name: max(0.0, each - rest[name] * seconds) for name, each in spent.items()}
    return {**processor, OWN: own}, waits


async def _cold(plan: Plan) -> dict[str, list[float]]:
    names = {InstanceState.COLD: "cold, no warm-up", InstanceState.WARMING_UP: "cold, with warm-up"}
    waits: dict[str, list[float]] = {name: [] for name in names.values()}
    recording = webm(SPOKEN_SECONDS)
    async with scaled_cloud() as cloud:
        await cloud.visit(InstanceState.WARM, recording, 0)
        for _ in range(plan.cold):
            for state, name in names.items():
                visit = await cloud.visit(state, recording, SPOKEN_SECONDS)
                waits[name].append(visit.wait / 1000)
    return waits


class Guests:
    """Visitors whose wait counts from the end of the recording.

    Args:
        cloud: the local cloud.
        visitor: speaks to it.
    """

    def __init__(self, cloud: LocalCloud, visitor: Visitor) -> None:
        self.cloud = cloud
        self._visitor = visitor
        self._recording = webm(SPOKEN_SECONDS)
        self._chance = random.Random(0)

    async def visit(self) -> float:
        """Send one voice; return the seconds from the begin of its upload to `done`."""
        created = await self._visitor.create(Wish(), CONTENT_TYPE)
        watching = asyncio.create_task(
            self._visitor.watch(created["voice_id"], lambda _voice: None)
        )
        await asyncio.sleep(LISTENING_SECONDS + off_beat(self._chance))
        begin = time.perf_counter()
        await self._visitor.upload(created, self._recording)
        await watching
        return time.perf_counter() - begin

    async def one_by_one(self, count: int) -> list[float]:
        """Send voices one after another."""
        return [await self.visit() for _ in range(count)]

    async def saturate(self, count: int) -> float:
        """Send so many, always `AT_ONCE` under way; return voices per second."""
        left = iter(range(count))

        async def visit() -> None:
            for _ in left:
                await self.visit()

        begin = time.perf_counter()
        await asyncio.gather(*(visit() for _ in range(AT_ONCE)))
        return count / (time.perf_counter() - begin)

    async def at_random(self, counts: Sequence[int], rates: Sequence[float]) -> list[float]:
        """Send voices at random times: so many of them at each rate, one rate after the other."""
        sending: list[asyncio.Task[float]] = []
        for count, rate in zip(counts, rates, strict=True):
            for _ in range(count):
                sending.append(asyncio.create_task(self.visit()))
                await asyncio.sleep(self._chance.expovariate(rate))
        return await asyncio.gather(*sending)
