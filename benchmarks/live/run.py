"""How long a visitor waits after the end of the speech: live, and by the upload path.

Both go through the same local cloud, alternately. The client is a Python program on the same
machine; what a browser adds is measured by `tests/browser`.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.measuring.processes import cpu_seconds
from benchmarks.measuring.recordings import CONTENT_TYPE, SLICE_SECONDS, webm
from benchmarks.measuring.report import Report, Table
from benchmarks.measuring.voice_journeys import visited_cloud
from infra.local.commands.live_visitor import LiveVisitor
from infra.local.commands.visitor import Visitor, Wish
from shared.voices.voice import Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    import httpx

    from benchmarks.measuring.report import Cell, Options
    from infra.local.cloud.cloud import LocalCloud
    from shared.voices.voice import Voice

SPOKEN_SECONDS: Final = 5.0
HURRIED_SECONDS: Final = 0.5
"""In how many seconds the recording of a single visitor is sent: the wait does not depend on it."""

ROUNDS_OF_EACH: Final = 3
"""How often each of many visitors speaks."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        warm: voices before anything is measured.
        voices: voices of each path, one after another.
        visitors: how many speak at once.
    """

    warm: int
    voices: int
    visitors: Sequence[int]


FULL: Final = Extent(warm=5, voices=60, visitors=(1, 8, 16, 24, 32, 40, 56))
QUICK: Final = Extent(warm=1, voices=3, visitors=(1, 4))


@dataclass(slots=True)
class Waits:
    """Milliseconds from the end of the speech, voice by voice.

    Attributes:
        playable: until all of the result is there.
        done: until the document is done.
        refused: how many voices were not converted on this path.
    """

    playable: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)
    refused: int = 0

    def row(self) -> tuple[Cell, ...]:
        """Return p50 and p95 of both, and the number of refusals."""
        return (*_percentiles(self.playable), *_percentiles(self.done), self.refused)


class SpeakingVisitor:
    """Visitors who speak to one local cloud.

    Args:
        cloud: the local cloud.
        client: sends their HTTP requests.
    """

    def __init__(self, cloud: LocalCloud, client: httpx.AsyncClient) -> None:
        self._visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        self._client = client
        self._recording = webm(SPOKEN_SECONDS)
        self._slice = math.ceil(len(self._recording) * SLICE_SECONDS / SPOKEN_SECONDS)

    async def live(self, waits: Waits, seconds: float = HURRIED_SECONDS) -> None:
        """Speak to `live`."""
        created = await self._visitor.create(Wish(), CONTENT_TYPE)
        offer = created["live"]
        async with LiveVisitor(offer["url"], offer["ticket"]) as visitor:
            await visitor.speak(self._recording, CONTENT_TYPE, seconds=seconds, piece=self._slice)
            ended = time.perf_counter()
            last = await visitor.end()
        if last is None or last["type"] != "done" or "sound" not in visitor.came_at:
            waits.refused += 1
            return
        waits.playable.append(1000 * (visitor.came_at["sound"] - ended))
        waits.done.append(1000 * (visitor.came_at["done"] - ended))

    async def upload(self, waits: Waits) -> None:
        """Upload the recording, listen to the document, and fetch the result."""
        created = await self._visitor.create(Wish(), CONTENT_TYPE)
        seen: list[float] = []

        def note(voice: Voice) -> None:
            if voice.status is Status.DONE:
                seen.append(time.perf_counter())

        watching = asyncio.create_task(self._visitor.watch(created["voice_id"], note))
        await asyncio.sleep(HURRIED_SECONDS)
        ended = time.perf_counter()
        await self._visitor.upload(created, self._recording)
        voice = await watching
        if voice.result is None:
            waits.refused += 1
            return
        await self._client.get(voice.result.url)
        waits.playable.append(1000 * (time.perf_counter() - ended))
        waits.done.append(1000 * (seen[0] - ended))

    async def at_once(self, visitors: int) -> Waits:
        """Let so many visitors speak to `live` at the pace of speech, again and again."""
        waits, chance = Waits(), random.Random(0)

        async def visit(pause: float) -> None:
            await asyncio.sleep(pause)
            for _ in range(ROUNDS_OF_EACH):
                await self.live(waits, SPOKEN_SECONDS)

        pauses = [chance.uniform(0, SPOKEN_SECONDS) for _ in range(visitors)]
        await asyncio.gather(*(visit(pause) for pause in pauses))
        return waits


async def run(options: Options) -> Report:
    """Measure both paths, and how many visitors `live` serves at once."""
    plan = QUICK if options.quick else FULL
    async with visited_cloud(embedded=False) as visitors:
        cloud = visitors.cloud
        speaking = SpeakingVisitor(cloud, visitors.client)
        paths = {"live": speaking.live, "upload": speaking.upload}
        await _measure(paths, plan.warm, cloud)
        waits, cpu = await _measure(paths, plan.voices, cloud)
        crowds = {many: await speaking.at_once(many) for many in plan.visitors}
    return _report(waits, cpu, crowds)


async def _measure(
    paths: Mapping[str, Callable[[Waits], Awaitable[None]]], voices: int, cloud: LocalCloud
) -> tuple[dict[str, Waits], dict[str, float]]:
    """Send voices on both paths alternately; return the waits, and each service's CPU seconds."""
    waits = {name: Waits() for name in paths}
    before = _cpu_seconds(cloud)
    for _ in range(voices):
        for name, send in paths.items():
            await send(waits[name])
    after = _cpu_seconds(cloud)
    return waits, {name: after[name] - before[name] for name in before}


def _cpu_seconds(cloud: LocalCloud) -> dict[str, float]:
    """Return the processor time of both converters so far."""
    return {name: cpu_seconds(cloud.pids[name]) for name in ("live", "convert")}


def _report(waits: dict[str, Waits], cpu: dict[str, float], crowds: dict[int, Waits]) -> Report:
    speech = SPOKEN_SECONDS * len(waits["live"].playable)
    paths = Table(
        f"After the end of {SPOKEN_SECONDS:g} s of speech, local cloud, warm",
        ("path", "playable p50, ms", "p95", "done p50, ms", "p95", "refused"),
        tuple((name, *found.row()) for name, found in waits.items()),
    )
    costs = Table(
        "Processor time of the converter for a second of speech",
        ("path", "ms"),
        (("live", 1000 * cpu["live"] / speech), ("upload", 1000 * cpu["convert"] / speech)),
    )
    at_once = Table(
        "Visitors who speak to live at the same time, without hearing",
        ("visitors", "playable p50, ms", "p95", "done p50, ms", "p95", "refused"),
        tuple((many, *found.row()) for many, found in crowds.items()),
    )
    ratios = {
        "live / upload, playable p50": median(waits["live"].playable)
        / median(waits["upload"].playable),
        "live / upload, processor time": cpu["live"] / cpu["convert"],
    }
    return Report("live", (paths, costs, at_once), ratios=ratios)


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return (float("nan"), float("nan"))
    p50, p95 = np.percentile(values, (50, 95))
    return (float(p50), float(p95))
