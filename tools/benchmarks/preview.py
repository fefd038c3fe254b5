"""Measures the age of the sound that visitors hear while they speak, and its cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from infra.local.commands.live import LiveVisitor
from tools.benchmarks.recordings import CONTENT_TYPE, slices, webm
from tools.benchmarks.report import Cell, Report, Table
from tools.benchmarks.servers import cpu_seconds
from tools.benchmarks.voice_journeys import Visitors, visited_cloud

SLICE_SECONDS: Final = 0.06
"""The interval at which a page in Chromium sends while its visitor hears the character."""

_RATE: Final = 24_000
_BYTES_PER_SAMPLE: Final = 2
_HEARD_SHARE: Final = 0.8  # of the recording; the sound after its end is not played
_STAGGER_SECONDS: Final = 0.37


async def run(*, quick: bool) -> Report:
    seconds, crowds = (4.0, (1, 2)) if quick else (10.0, (1, 4, 8, 16))
    recording = webm(seconds)
    rows: list[tuple[Cell, ...]] = []
    # All visitors have a place, so that the table shows how each number of them fares.
    async with visited_cloud(environment={"HEARINGS": str(max(crowds))}) as visitors:
        live = visitors.cloud.services.pids["live"]
        await _visit(visitors, 1, recording, hear=True)
        for count in crowds:
            before = cpu_seconds(live)
            heard = await _visit(visitors, count, recording, hear=True)
            between = cpu_seconds(live)
            await _visit(visitors, count, recording, hear=False)
            costs = (between - before, cpu_seconds(live) - between)
            spoken = count * seconds
            costs_shown = (round(1000 * cost / spoken, 1) for cost in costs)
            rows.append((count, *_summary(heard, seconds), *costs_shown))
    columns = (
        *("visitors at once", "age p50, ms", "p95, ms", "heard to the end", "voices done"),
        *("CPU, ms per second of speech", "the same without hearing"),
    )
    title = (
        "Visitors who hear the character: age of the sound when it comes, and the service's"
        " processor time"
    )
    return Report("hearing", (Table(title, columns, tuple(rows)),))


@dataclass(slots=True)
class Heard:
    """The sound that one visitor heard, with its age when the middle of each piece came."""

    is_whole: bool  # hearing did not end early
    is_done: bool  # the voice was converted
    ages: list[float] = field(default_factory=list)
    seconds: float = 0.0


async def _visit(
    visitors: Visitors, count: int, recording: bytes, *, hear: bool
) -> Sequence[Heard]:
    async def visit(number: int) -> Heard:
        await asyncio.sleep(number * _STAGGER_SECONDS)
        return await speak(visitors, recording, hear=hear)

    return await asyncio.gather(*(visit(number) for number in range(count)))


def _summary(found: Sequence[Heard], seconds: float) -> tuple[Cell, ...]:
    ages = [1000 * age for one in found for age in one.ages]
    whole = sum(one.is_whole and one.seconds > _HEARD_SHARE * seconds for one in found)
    done = sum(one.is_done for one in found)
    if not ages:
        return None, None, whole, done
    middle, late = (round(float(np.percentile(ages, share))) for share in (50, 95))
    return middle, late, whole, done


async def speak(visitors: Visitors, recording: bytes, *, hear: bool) -> Heard:
    """Send a WebM file to the service `live` at the pace of speech."""
    address = f"{visitors.cloud.addresses.api}/api/v1/voices"
    answer = await visitors.client.post(address, json={"content_type": CONTENT_TYPE})
    live = answer.raise_for_status().json()["live"]
    async with LiveVisitor(live["url"], live["ticket"], hear=hear) as visitor:
        await visitor.start(CONTENT_TYPE)
        ending = asyncio.create_task(visitor.end())
        began = time.perf_counter()
        for number, piece in enumerate(slices(recording, SLICE_SECONDS), start=1):
            # A slice exists once it has been spoken.
            await asyncio.sleep(began + number * SLICE_SECONDS - time.perf_counter())
            await visitor.send(piece)
        await visitor.finish()
        end = await ending
    heard = Heard(
        is_whole="hearing_ended" not in visitor.came_at,
        is_done=end is not None and end["type"] == "done",
    )
    for sound in visitor.heard:
        samples = len(sound.samples) // _BYTES_PER_SAMPLE
        heard.ages.append(sound.came_at - began - (sound.first + samples / 2) / _RATE)
        heard.seconds += samples / _RATE
    return heard
