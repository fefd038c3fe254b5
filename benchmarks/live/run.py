"""How long a visitor waits after the end of the speech: live, and by the upload path.

Both go through the same local cloud, alternately. The client is a Python program on the same
machine; what a browser adds is measured by `tests/browser`.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.live.speaking import SpeakingVisitor, Spoken
from benchmarks.measuring.recordings import webm
from benchmarks.measuring.report import Report, Table
from benchmarks.measuring.voice_journeys import visited_cloud

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.live.speaking import Wait
    from benchmarks.measuring.report import Cell, Options

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
            waits.note(await speaking.live(Spoken(recording, SPOKEN_SECONDS)))

    pauses = [chance.uniform(0, SPOKEN_SECONDS) for _ in range(visitors)]
    await asyncio.gather(*(visit(pause) for pause in pauses))
    return waits


async def run(options: Options) -> Report:
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
    spoken = Spoken(recording, SPOKEN_SECONDS, HURRIED_SECONDS)
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
