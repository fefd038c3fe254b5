"""Measures what is heard while speaking: its distance to the result, its cost, and its age."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.hearing.distance import Distance, distance, roughness
from benchmarks.hearing.visitors import Heard, speak
from benchmarks.measuring.recordings import SAMPLE_RATE, speech, webm
from benchmarks.measuring.report import Report, Table
from benchmarks.measuring.servers import Server
from benchmarks.measuring.voice_journeys import changed_environment, visited_cloud
from speech.bundles.reading import load_character
from speech.engines.interface.engine import ConversionOptions
from speech.engines.registry import ENGINES, build_engine
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.measuring.report import Cell, Options
    from benchmarks.measuring.voice_journeys import Visitors
    from speech.engines.interface.engine import Engine
    from speech.signal.arrays import Samples

BUNDLE: Final = Path(__file__).parents[2] / "tests" / "data" / "bundles" / "mei"
SECONDS: Final = 10.0
_SEMITONES: Final = 12.0
"""With a shift that was asked for, nothing depends on the speaker's register."""

_STATE_FRAMES: Final = 16
_HOP: Final = 240
_P95: Final = 95
_HEARD_SHARE: Final = 0.8  # of the recording; what comes after its end is not heard any more
_STAGGER_SECONDS: Final = 0.37


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        seconds: of speech.
        rounds: of each choice, alternately.
        visitors: at once, one number after the other.
        embedded: whether the local cloud is one process.
    """

    seconds: float
    rounds: int
    visitors: tuple[int, ...]
    embedded: bool


FULL: Final = Extent(SECONDS, rounds=7, visitors=(1, 4, 8, 16), embedded=False)
QUICK: Final = Extent(4.0, rounds=1, visitors=(1, 2), embedded=False)


async def run(options: Options) -> Report:
    """Measure."""
    plan = QUICK if options.quick else FULL
    recording = speech(plan.seconds)
    engine = build_engine(load_character(BUNDLE, ENGINES), SessionSettings())
    tables = [
        _distances(engine, recording),
        _costs(engine, recording, plan),
        await _ages(plan),
    ]
    return Report("hearing", tuple(tables))


def heard(engine: Engine, recording: Samples, options: ConversionOptions) -> Samples:
    """Convert a recording as it is heard while it is spoken."""
    stream = engine.open_stream(SAMPLE_RATE, options)
    if stream is None:
        raise RuntimeError("the character cannot be heard")
    return np.concatenate([stream.push(recording), stream.finish()])


def _distances(engine: Engine, recording: Samples) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, semitones in (("register guessed", None), ("register known", _SEMITONES)):
        options = ConversionOptions(pitch_shift=semitones)
        whole = engine.convert(recording, SAMPLE_RATE, options)
        found = heard(engine, recording, options)
        rows.append((name, *_cells(distance(whole, found)), *_clicks(found)))
    seeds = [
        engine.convert(recording, SAMPLE_RATE, ConversionOptions(seed=seed)) for seed in (0, 1)
    ]
    other = distance(*seeds)
    rows.append(("the whole conversion with another seed", *_cells(other), None, None))
    return Table(
        "Distance to the whole conversion, and clicks",
        (
            "what is heard",
            "envelope in the first second, dB",
            "envelope after it, dB",
            "level after it, dB",
            "bend of the wave at cuts",
            "every 10 ms between",
        ),
        tuple(rows),
    )


def _cells(found: Distance) -> tuple[float, float, float]:
    values = found.envelope_first, found.envelope_after, found.level_after
    first, after, level = (round(value, 2) for value in values)
    return first, after, level


def _clicks(found: Samples) -> tuple[float, float]:
    length = _STATE_FRAMES * _HOP
    cuts = range(length - _HOP, len(found), length)
    others = sorted(set(range(0, len(found), _HOP)) - set(cuts))
    return round(roughness(found, cuts), 2), round(roughness(found, others), 2)


def _costs(engine: Engine, recording: Samples, plan: Extent) -> Table:
    options = ConversionOptions()
    works = {
        "heard while speaking": partial(heard, engine, recording, options),
        "whole conversion": partial(engine.convert, recording, SAMPLE_RATE, options),
    }
    milliseconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(plan.rounds + 1):
        for name, work in works.items():
            milliseconds[name].append(_cpu(work))
    rows = tuple(
        # Without the first round, which loads and warms up.
        (name, round(median(found[1:]) / plan.seconds, 1))
        for name, found in milliseconds.items()
    )
    return Table("Processor time", ("what", "ms per second of speech"), rows)


def _cpu(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1000


async def _ages(plan: Extent) -> Table:
    recording = webm(plan.seconds)
    rows: list[tuple[Cell, ...]] = []
    # As many as are measured: how they fare is the question, not how many a service lets in.
    places = {"HEARINGS": str(max(plan.visitors))}
    with changed_environment(places):
        async with visited_cloud(embedded=plan.embedded) as visitors:
            await _visit(visitors, 1, recording, hear=True)
            for count in plan.visitors:
                row = await _row(visitors, count, recording, plan)
                rows.append((count, *row))
    return Table(
        "Visitors who hear the character: age of the sound when it comes, and the service's"
        " processor time",
        (
            "visitors at once",
            "age p50, ms",
            "p95, ms",
            "heard to the end",
            "voices done",
            "CPU, ms per second of speech",
            "the same without hearing",
        ),
        tuple(rows),
    )


async def _row(visitors: Visitors, count: int, recording: bytes, plan: Extent) -> tuple[Cell, ...]:
    costs: list[Cell] = []
    found: dict[bool, Sequence[Heard]] = {}
    for hear in (True, False):
        before = _cpu_of_live(visitors)
        found[hear] = await _visit(visitors, count, recording, hear=hear)
        after = _cpu_of_live(visitors)
        spoken = count * plan.seconds
        costs.append(
            None if before is None or after is None else round(1000 * (after - before) / spoken, 1)
        )
    return *_summary(found[True], plan.seconds), *costs


def _cpu_of_live(visitors: Visitors) -> float | None:
    """Return the processor time of the service `live`, if it has a process of its own."""
    pid = visitors.cloud.pids.get("live")
    return None if pid is None else Server("", pid).cpu_seconds()


async def _visit(
    visitors: Visitors, count: int, recording: bytes, *, hear: bool
) -> Sequence[Heard]:
    async def visit(number: int) -> Heard:
        await asyncio.sleep(number * _STAGGER_SECONDS)
        api = visitors.cloud.addresses.api
        return await speak(visitors.client, api, recording, hear=hear)

    return await asyncio.gather(*(visit(number) for number in range(count)))


def _summary(found: Sequence[Heard], seconds: float) -> tuple[Cell, ...]:
    ages = [age for heard_ in found for age in heard_.ages]
    whole = sum(one.is_whole and one.seconds > _HEARD_SHARE * seconds for one in found)
    done = sum(one.is_done for one in found)
    if not ages:
        return None, None, whole, done
    middle, late = (round(1000 * float(np.percentile(ages, share))) for share in (50, _P95))
    return middle, late, whole, done
