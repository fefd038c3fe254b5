"""The cost of a voice beside its conversion, from the end of the upload to `done`."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from infra.local.configuration import names
from shared.google.storage import Signer
from shared.voices.voice import Status
from tools.benchmarks.pipeline_counts import READ, WRITE, CountingProxy, Deliveries
from tools.benchmarks.report import Report, Table
from tools.benchmarks.servers import cpu_seconds
from tools.benchmarks.voice_journeys import running_emulators, told_of_emulators, visited_cloud

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from google.cloud.storage import Blob

    from tools.benchmarks.report import BenchmarkOptions, Cell
    from tools.benchmarks.voice_journeys import Visitors, VoiceJourney


@contextmanager
def counted_signatures() -> Iterator[Counter[str]]:
    """Count what `Signer` signs, by the method of the request that is signed for.

    In the local cloud it signs with a key; where IAM signs, each of these is a call of signBlob.
    """
    counts: Counter[str] = Counter()
    sign_url = Signer.sign_url

    def counting(signer: Signer, blob: Blob, method: str, expires_at: datetime, **more: Any) -> str:
        counts[method] += 1
        return sign_url(signer, blob, method, expires_at, **more)

    Signer.sign_url = counting  # type: ignore[assignment, method-assign] # the services make their own signers
    try:
        yield counts
    finally:
        Signer.sign_url = sign_url  # type: ignore[method-assign]


AFTERWARDS_SECONDS: Final = 2.0
COUNTED_SHARDS: Final = 3
"""Over how many buckets recordings are spread while calls are counted; it changes none of them."""

PERCENTILES: Final = (50, 95, 99)
EMULATORS_PUSH: Final = "the emulator's push"
AT_ONCE: Final = "every message at once"
IN_MEMORY: Final = "in memory, one process"

HOPS: Final = (
    f"published to {names.UPLOADS_TOPIC}",
    f"arrived from {names.UPLOADS_TOPIC}",
    f"published to {names.CONVERSIONS_TOPIC}",
    f"arrived from {names.CONVERSIONS_TOPIC}",
    "listener: converting",
    "listener: done, without the conversion",
)


@dataclass(frozen=True, slots=True)
class PipelineExtent:
    """How many voices are sent in each way."""

    warm_ups: int
    idle: int
    traced: int
    counted: int


FULL: Final = PipelineExtent(warm_ups=20, idle=100, traced=40, counted=10)
QUICK: Final = PipelineExtent(warm_ups=5, idle=8, traced=5, counted=2)


@dataclass(frozen=True, slots=True)
class Emulated:
    """What was measured with Google's emulators.

    Attributes:
        hops: by the way of delivery, when each of `HOPS` was reached, a voice a row: milliseconds
            from the end of the upload.
        processor: milliseconds of processor time per voice, by service, with the emulator's push.
    """

    idle: Mapping[str, Sequence[VoiceJourney]]
    hops: Mapping[str, Sequence[Sequence[float]]]
    processor: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Counts:
    """The calls that one voice causes."""

    writes: float
    reads: float
    listened: float
    messages: float


async def run(options: BenchmarkOptions) -> Report:
    """Measure the overhead of each way of delivery, its hops, and the calls that a voice causes."""
    plan = QUICK if options.quick else FULL
    async with visited_cloud(embedded=True) as visitors:
        await visitors.one_by_one(plan.warm_ups)
        with counted_signatures() as signatures:
            in_memory = await visitors.one_by_one(plan.idle)
    async with visited_cloud(embedded=False) as visitors:
        await visitors.one_by_one(plan.warm_ups)
        emulated = await measure_emulated(visitors, plan)
    signed = signatures.total() / plan.idle
    counts = await measure_counts(plan)
    return Report(
        "pipeline",
        (
            overhead_table({**emulated.idle, IN_MEMORY: in_memory}),
            hops_table(emulated.hops),
            counts_table(counts, signed),
            processor_table(emulated.processor),
        ),
        facts={
            "overhead on the idle local cloud, p50 (ms, under 120 is wanted)": median(
                journey.overhead for journey in emulated.idle[EMULATORS_PUSH]
            )
        },
        ratios={"Firestore calls per voice": counts.writes + counts.reads},
    )


async def measure_emulated(visitors: Visitors, plan: PipelineExtent) -> Emulated:
    """Measure both ways of delivery, alternately."""
    deliveries = Deliveries(visitors.client, visitors.cloud.addresses)
    processor = ProcessorTime(visitors.cloud.pids)
    pushed = await visitors.one_by_one(plan.idle)
    per_voice = processor.spent(len(pushed))
    async with deliveries.at_once():
        at_once = await visitors.one_by_one(plan.idle)
    hops = {
        EMULATORS_PUSH: await _trace(visitors, deliveries, deliveries.watched(), plan),
        AT_ONCE: await _trace(visitors, deliveries, deliveries.at_once(), plan),
    }
    return Emulated({EMULATORS_PUSH: pushed, AT_ONCE: at_once}, hops, per_voice)


async def _trace(
    visitors: Visitors,
    deliveries: Deliveries,
    delivery: AbstractAsyncContextManager[None],
    plan: PipelineExtent,
) -> list[list[float]]:
    async with delivery:
        journeys = await visitors.one_by_one(plan.traced)
    return [_hops_of(journey, deliveries.moments[journey.voice_id]) for journey in journeys]


def _hops_of(journey: VoiceJourney, moments: Mapping[str, float]) -> list[float]:
    """Return when a voice reached each of `HOPS`."""
    *deliveries, _, _ = HOPS
    # The listener may leave a state out that lasted too short.
    converting = journey.seen.get(Status.CONVERTING, journey.seen[Status.DONE])
    return [
        *(journey.since_upload(moments[hop]) for hop in deliveries),
        journey.since_upload(converting),
        journey.overhead,
    ]


async def measure_counts(plan: PipelineExtent) -> Counts:
    """Count the calls to Firestore and Pub/Sub."""
    async with (
        running_emulators() as (firestore, pubsub),
        CountingProxy(firestore) as proxy,
    ):
        with told_of_emulators(proxy.address, pubsub):
            spread = visited_cloud(embedded=False, upload_shards=COUNTED_SHARDS)
            async with spread as visitors:
                deliveries = Deliveries(visitors.client, visitors.cloud.addresses)
                async with deliveries.watched():
                    before = proxy.calls.copy()
                    journeys = await visitors.one_by_one(plan.counted)
                    # A recording is emptied after `done`, of which one more message tells.
                    await asyncio.sleep(AFTERWARDS_SECONDS)
                calls = proxy.calls - before
    ids = [journey.voice_id for journey in journeys]
    return Counts(
        writes=calls[WRITE] / len(ids),
        reads=calls[READ] / len(ids),
        listened=sum(journey.states for journey in journeys) / len(ids),
        messages=sum(deliveries.messages[voice_id] for voice_id in ids) / len(ids),
    )


class ProcessorTime:
    """The processor time that services use from now on."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = self._now()

    def spent(self, voices: int) -> dict[str, float]:
        """Return the milliseconds per voice, by service."""
        return {name: (now - self._before[name]) / voices for name, now in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: 1000 * cpu_seconds(pid) for name, pid in self._pids.items()}


def overhead_table(ways: Mapping[str, Sequence[VoiceJourney]]) -> Table:
    """Return the table of overheads."""
    rows: list[tuple[Cell, ...]] = []
    for way, journeys in ways.items():
        overheads = np.percentile([journey.overhead for journey in journeys], PERCENTILES)
        conversion = median(journey.conversion for journey in journeys)
        rows.append((way, *map(float, overheads), conversion, len(journeys)))
    columns = ("delivery", *(f"p{each}" for each in PERCENTILES), "conversion", "voices")
    title = "From the end of the upload to done at the visitor's listener, less the conversion, ms"
    return Table(title, columns, tuple(rows))


def hops_table(hops: Mapping[str, Sequence[Sequence[float]]]) -> Table:
    """Return when each hop was reached, and how long each took."""
    columns = ["hop"]
    cells: list[list[Cell]] = [[hop] for hop in HOPS]
    for way, voices in hops.items():
        columns += [way, "step"]
        reached = np.asarray(voices)
        steps = np.diff(reached, axis=1, prepend=0.0)
        for row, at, step in zip(
            cells, np.median(reached, axis=0), np.median(steps, axis=0), strict=True
        ):
            row += [float(at), float(step)]
    title = "When a voice reaches each hop, ms from the end of the upload, medians"
    return Table(title, tuple(columns), tuple(map(tuple, cells)))


def counts_table(counts: Counts, signed: float) -> Table:
    """Build the table of calls for one voice, with the addresses that are signed for it."""
    rows: tuple[tuple[Cell, ...], ...] = (
        ("Firestore documents written", counts.writes),
        ("Firestore documents read by the service", counts.reads),
        ("Firestore documents read by the visitor's listener", counts.listened),
        ("Pub/Sub messages", counts.messages),
        ("addresses signed, each a call of signBlob unless signing is hmac", signed),
    )
    return Table("What one voice asks for", ("what", "per voice"), rows)


def processor_table(processor: Mapping[str, float]) -> Table:
    """Return the processor time of each service."""
    return Table(
        "Processor time per voice of 3 s, ms", ("service", "time"), tuple(processor.items())
    )
