"""Measures the cost of a voice beside its conversion, from the end of the upload to `done`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from infra.local.configuration import names
from infra.local.configuration.environments import FIRESTORE_VARIABLE, PUBSUB_VARIABLE
from shared.voices.voice import Status
from tools.benchmarks.pipeline_counts import (
    READ,
    WRITE,
    CountingProxy,
    Deliveries,
    watched_deliveries,
)
from tools.benchmarks.report import PERCENTILES, Cell, Report, Table
from tools.benchmarks.servers import cpu_seconds, emulator
from tools.benchmarks.voice_journeys import Visitors, VoiceJourney, visited_cloud

AFTERWARDS_SECONDS: Final = 2.0
COUNTED_SHARDS: Final = 3
"""The buckets of recordings, and of results, while calls are counted; more cause no more calls."""

EMULATORS_PUSH: Final = "the emulator's push"
IN_MEMORY: Final = "in memory, one process"

HOPS: Final = (
    f"published to {names.UPLOADS_TOPIC}",
    f"arrived from {names.UPLOADS_TOPIC}",
    f"published to {names.CONVERSIONS_TOPIC}",
    f"arrived from {names.CONVERSIONS_TOPIC}",
    "listener: converting",
    "listener: done, without the conversion",
)


class Counts(NamedTuple):
    """Documents and messages of one voice; `listened` documents reach the visitor's listener."""

    writes: float
    reads: float
    listened: float
    messages: float


async def run(*, quick: bool) -> Report:
    # The emulators' first requests take longer, so nothing is measured during the warm-ups.
    warm_ups, idle, traced, counted = (5, 8, 5, 2) if quick else (20, 100, 40, 10)
    async with visited_cloud(embedded=True) as visitors:
        await visitors.send_one_by_one(warm_ups)
        in_memory = await visitors.send_one_by_one(idle)
    async with visited_cloud() as visitors:
        await visitors.send_one_by_one(warm_ups)
        before = _cpu_milliseconds(visitors)
        pushed = await visitors.send_one_by_one(idle)
        after = _cpu_milliseconds(visitors)
        async with watched_deliveries(visitors) as deliveries:
            followed = await visitors.send_one_by_one(traced)
    processor = tuple((name, (after[name] - spent) / idle) for name, spent in before.items())
    counts = await measure_counts(counted)
    return Report(
        "pipeline",
        (
            _overhead_table({EMULATORS_PUSH: pushed, IN_MEMORY: in_memory}),
            _hops_table([_hops_of(each, deliveries) for each in followed]),
            _counts_table(counts),
            Table("Processor time per voice of 3 s, ms", ("service", "time"), processor),
        ),
        facts={
            "overhead on the idle local cloud, p50 (ms, under 120 is wanted)": median(
                journey.overhead for journey in pushed
            )
        },
        ratios={"Firestore calls per voice": counts.writes + counts.reads},
    )


def _cpu_milliseconds(visitors: Visitors) -> dict[str, float]:
    return {name: 1000 * cpu_seconds(pid) for name, pid in visitors.cloud.services.pids.items()}


def _hops_of(journey: VoiceJourney, deliveries: Deliveries) -> list[float]:
    *delivered, _, _ = HOPS
    moments = deliveries.moments[journey.voice_id]
    # The listener may skip a state that was too short.
    converting = journey.seen.get(Status.CONVERTING, journey.seen[Status.DONE])
    return [
        *(journey.since_upload(moments[hop]) for hop in delivered),
        journey.since_upload(converting),
        journey.overhead,
    ]


async def measure_counts(voices: int) -> Counts:
    async with (
        emulator("firestore") as firestore,
        emulator("pubsub") as pubsub,
        CountingProxy(firestore) as proxy,
        visited_cloud(
            upload_shards=COUNTED_SHARDS,
            environment={FIRESTORE_VARIABLE: proxy.address, PUBSUB_VARIABLE: pubsub},
        ) as visitors,
    ):
        async with watched_deliveries(visitors) as deliveries:
            before = proxy.calls.copy()
            journeys = await visitors.send_one_by_one(voices)
            # A recording is emptied after `done`, which causes one more message.
            await asyncio.sleep(AFTERWARDS_SECONDS)
        calls = proxy.calls - before
    ids = [journey.voice_id for journey in journeys]
    return Counts(
        writes=calls[WRITE] / len(ids),
        reads=calls[READ] / len(ids),
        listened=sum(journey.states for journey in journeys) / len(ids),
        messages=sum(deliveries.messages[voice_id] for voice_id in ids) / len(ids),
    )


def _overhead_table(ways: Mapping[str, Sequence[VoiceJourney]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for way, journeys in ways.items():
        overheads = np.percentile([journey.overhead for journey in journeys], PERCENTILES)
        conversion = median(journey.conversion for journey in journeys)
        rows.append((way, *map(float, overheads), conversion, len(journeys)))
    columns = ("delivery", *(f"p{each}" for each in PERCENTILES), "conversion", "voices")
    title = "From the end of the upload to done at the visitor's listener, less the conversion, ms"
    return Table(title, columns, tuple(rows))


def _hops_table(voices: Sequence[Sequence[float]]) -> Table:
    reached = np.asarray(voices)
    steps = np.median(np.diff(reached, axis=1, prepend=0.0), axis=0)
    figures = zip(HOPS, np.median(reached, axis=0), steps, strict=True)
    rows = tuple((hop, float(at), float(step)) for hop, at, step in figures)
    title = "When a voice reaches each hop, ms from the end of the upload, medians"
    return Table(title, ("hop", EMULATORS_PUSH, "step"), rows)


def _counts_table(counts: Counts) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = (
        ("Firestore documents written", counts.writes),
        ("Firestore documents read by the service", counts.reads),
        ("Firestore documents read by the visitor's listener", counts.listened),
        ("Pub/Sub messages", counts.messages),
    )
    return Table("What one voice asks for", ("what", "per voice"), rows)
