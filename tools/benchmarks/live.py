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

from infra.local.commands.live import LiveVisitor
from infra.local.commands.visitor import RecordingRequest, Visitor
from shared.voices.voice import Status
from tools.benchmarks.recordings import CONTENT_TYPE, SLICE_SECONDS, webm
from tools.benchmarks.report import Report, Table
from tools.benchmarks.servers import cpu_seconds
from tools.benchmarks.voice_journeys import visited_cloud

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from infra.local.cloud.local_cloud import LocalCloud
    from shared.voices.voice import Voice
    from tools.benchmarks.report import BenchmarkOptions, Cell


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds from the end of the speech."""

    playable: float
    done: float


@dataclass(frozen=True, slots=True)
class SpokenRecording:
    """A recording that is spoken.

    Attributes:
        within: in how many seconds it is sent; None at the pace of speech.
    """

    recording: bytes
    seconds: float
    within: float | None = None


class SpeakingVisitor:
    """Speaks to one local cloud."""

    def __init__(
        self, cloud: LocalCloud, client: httpx.AsyncClient, wish: RecordingRequest | None = None
    ) -> None:
        self._pids = cloud.pids
        self._visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        self._client = client
        self._wish = wish or RecordingRequest()

    async def live(self, spoken: SpokenRecording) -> Wait | None:
        """Speak to `live`, in slices as the page sends them; None if it does not convert."""
        created = await self._visitor.create(self._wish, CONTENT_TYPE)
        offer, recording = created["live"], spoken.recording
        piece = math.ceil(len(recording) * SLICE_SECONDS / spoken.seconds)
        within = spoken.within or spoken.seconds
        async with LiveVisitor(offer["url"], offer["ticket"]) as visitor:
            await visitor.speak(recording, CONTENT_TYPE, seconds=within, piece=piece)
            ended = time.perf_counter()
            last = await visitor.end()
        if last is None or last["type"] != "done" or "sound" not in visitor.came_at:
            return None
        return Wait(visitor.came_at["sound"] - ended, visitor.came_at["done"] - ended)

    async def upload(self, spoken: SpokenRecording) -> Wait | None:
        """Speak, upload, listen to the document and fetch the result; None without a result."""
        created = await self._visitor.create(self._wish, CONTENT_TYPE)
        seen: list[float] = []

        def note(voice: Voice) -> None:
            if voice.status is Status.DONE:
                seen.append(time.perf_counter())

        watching = asyncio.create_task(self._visitor.watch(created["voice_id"], note))
        await asyncio.sleep(spoken.within or spoken.seconds)
        ended = time.perf_counter()
        await self._visitor.upload(created, spoken.recording)
        voice = await watching
        if voice.result is None:
            return None
        await self._client.get(voice.result.url)
        return Wait(time.perf_counter() - ended, seen[0] - ended)

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor time of both converters so far."""
        return {name: cpu_seconds(self._pids[name]) for name in ("live", "convert")}


SPOKEN_SECONDS: Final = 5.0
HURRIED_SECONDS: Final = 0.5
"""In how many seconds the recording of a single visitor is sent: the wait does not depend on it."""

ROUNDS_OF_EACH: Final = 3
"""How often each of many visitors speaks."""


@dataclass(frozen=True, slots=True)
class LiveExtent:
    """How much is measured."""

    warm: int
    voices: int
    visitors: Sequence[int]


FULL: Final = LiveExtent(warm=5, voices=60, visitors=(1, 8, 16, 24, 32, 40, 56))
QUICK: Final = LiveExtent(warm=1, voices=3, visitors=(1, 4))


@dataclass(slots=True)
class Waits:
    """Milliseconds from the end of the speech, voice by voice."""

    playable: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)
    refused: int = 0

    def note(self, wait: Wait | None) -> None:
        """Add a voice, or a refusal."""
        if wait is None:
            self.refused += 1
            return
        self.playable.append(1000 * wait.playable)
        self.done.append(1000 * wait.done)

    def row(self) -> tuple[Cell, ...]:
        """Return p50 and p95 of both, and the number of refusals."""
        return (*_percentiles(self.playable), *_percentiles(self.done), self.refused)


async def _speak_at_once(speaking: SpeakingVisitor, recording: bytes, visitors: int) -> Waits:
    """Let so many visitors speak to `live` at the pace of speech, again and again."""
    waits, chance = Waits(), random.Random(0)

    async def visit(pause: float) -> None:
        await asyncio.sleep(pause)
        for _ in range(ROUNDS_OF_EACH):
            waits.note(await speaking.live(SpokenRecording(recording, SPOKEN_SECONDS)))

    pauses = [chance.uniform(0, SPOKEN_SECONDS) for _ in range(visitors)]
    await asyncio.gather(*(visit(pause) for pause in pauses))
    return waits


async def run(options: BenchmarkOptions) -> Report:
    """Measure both paths, and how many visitors `live` serves at once."""
    plan = QUICK if options.quick else FULL
    async with visited_cloud(embedded=False) as visitors:
        speaking = SpeakingVisitor(visitors.cloud, visitors.client)
        recording = webm(SPOKEN_SECONDS)
        await _measure(speaking, recording, plan.warm)
        waits, cpu = await _measure(speaking, recording, plan.voices)
        crowds = {many: await _speak_at_once(speaking, recording, many) for many in plan.visitors}
    return _report(waits, cpu, crowds)


async def _measure(
    speaking: SpeakingVisitor, recording: bytes, voices: int
) -> tuple[dict[str, Waits], dict[str, float]]:
    """Send voices on both paths alternately; return the waits, and each service's CPU seconds."""
    paths = {"live": speaking.live, "upload": speaking.upload}
    waits = {name: Waits() for name in paths}
    spoken = SpokenRecording(recording, SPOKEN_SECONDS, HURRIED_SECONDS)
    before = speaking.cpu_seconds()
    for _ in range(voices):
        for name, send in paths.items():
            waits[name].note(await send(spoken))
    after = speaking.cpu_seconds()
    return waits, {name: after[name] - before[name] for name in before}


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
