"""Measures what is heard while speaking: its distance to the result, its cost, and its age."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from infra.local.commands.live import LiveVisitor
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from tools.benchmarks.recordings import CONTENT_TYPE, SAMPLE_RATE, slices, speech, webm
from tools.benchmarks.report import Report, Table
from tools.benchmarks.servers import Server
from tools.benchmarks.voice_journeys import changed_environment, visited_cloud

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import httpx
    import numpy.typing as npt

    from shared.speech.engines.interface import Engine
    from shared.speech.signal.sound import Samples
    from tools.benchmarks.report import BenchmarkOptions, Cell
    from tools.benchmarks.voice_journeys import Visitors


RATE: Final = 24_000
_HOP: Final = 240
_WINDOW: Final = 1_024
_BANDS: Final = 40
_LOWEST_HZ: Final = 80.0
_HIGHEST_HZ: Final = 11_000.0
_AUDIBLE: Final = 1e-4  # of the loudest frame's power
_FLOOR: Final = 1e-5  # of the loudest band's power
_FIRST_FRAMES: Final = 100
_CLICK_REACH: Final = 24  # samples, 1 ms
_LEVEL_REACH: Final = 120


@dataclass(frozen=True, slots=True)
class Distance:
    """Distances in dB, in the first second of speech and after it.

    Attributes:
        envelope_first: of the spectral envelopes, level apart, mean over frames of the root mean
            square over 40 mel bands.
        level_after: of the levels, root mean square over frames.
    """

    envelope_first: float
    envelope_after: float
    level_after: float


def distance(wanted: Samples, found: Samples) -> Distance:
    """Compare two voices of at least two seconds at 24 kHz, float32 [N], in the loud frames."""
    first, second = _bands(wanted), _bands(found)
    power = first.sum(axis=1)
    loud = np.flatnonzero(power > _AUDIBLE * power.max())
    floor = _FLOOR * first.max()
    apart = 10 * (np.log10(first[loud] + floor) - np.log10(second[loud] + floor))
    level = apart.mean(axis=1)
    envelope = np.sqrt(np.square(apart - level[:, None]).mean(axis=1))
    is_first = loud < loud[0] + _FIRST_FRAMES
    return Distance(
        float(envelope[is_first].mean()),
        float(envelope[~is_first].mean()),
        float(np.sqrt(np.square(level[~is_first]).mean())),
    )


def roughness(samples: Samples, places: Sequence[int]) -> float:
    """Measure clicks: how much the wave bends at places beside how loud it is there.

    Returns:
        The 95th percentile over the places that are loud.
    """
    bends = np.abs(np.diff(samples.astype(np.float64), 2))
    found = []
    for place in places:
        around = samples[max(place - _LEVEL_REACH, 0) : place + _LEVEL_REACH]
        level = float(np.sqrt(np.square(around).mean())) if len(around) else 0.0
        bend = bends[max(place - _CLICK_REACH, 0) : place + _CLICK_REACH]
        if level > 1e-3 and len(bend):  # noqa: PLR2004 - 60 dB below full scale
            found.append(float(bend.max()) / level)
    return float(np.percentile(found, 95)) if found else 0.0


def _bands(samples: Samples) -> npt.NDArray[np.float64]:
    """Power in mel bands every 10 ms."""
    padded = np.pad(samples.astype(np.float64), _WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(_WINDOW))))
    bands: npt.NDArray[np.float64] = power @ _mel_filters().T
    return bands


def _mel_filters() -> npt.NDArray[np.float64]:
    hertz = np.arange(_WINDOW // 2 + 1) * RATE / _WINDOW
    lowest, highest = (2595 * np.log10(1 + end / 700) for end in (_LOWEST_HZ, _HIGHEST_HZ))
    corners = 700 * (10 ** (np.linspace(lowest, highest, _BANDS + 2) / 2595) - 1)
    low, centre, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    filters = np.minimum((hertz - low) / (centre - low), (high - hertz) / (high - centre))
    filters = np.maximum(filters, 0.0)
    unit_sum: npt.NDArray[np.float64] = filters / filters.sum(axis=1, keepdims=True)
    return unit_sum


HEARD_RATE: Final = 24_000
SLICE_SECONDS: Final = 0.06
"""How often a page whose visitor hears the character sends: at each packet of Chromium."""

_BYTES_PER_SAMPLE: Final = 2


@dataclass(slots=True)
class PreviewedSound:
    """What one visitor heard.

    Attributes:
        ages: how long ago the middle of each piece of sound was spoken when it came, in seconds.
    """

    ages: list[float] = field(default_factory=list)
    seconds: float = 0.0
    is_whole: bool = False
    is_done: bool = False


async def speak(
    client: httpx.AsyncClient, api: str, recording: bytes, *, hear: bool
) -> PreviewedSound:
    """Send a recording at the pace of speech."""
    answer = await client.post(f"{api}/api/v1/voices", json={"content_type": CONTENT_TYPE})
    live = answer.raise_for_status().json()["live"]
    async with LiveVisitor(live["url"], live["ticket"], hear=hear) as visitor:
        await visitor.start(CONTENT_TYPE)
        ending = asyncio.create_task(visitor.end())
        began = time.perf_counter()
        await _send(visitor, recording, began)
        end = await ending
    heard = PreviewedSound(is_done=end is not None and end["type"] == "done")
    heard.is_whole = "hearing_ended" not in visitor.came_at
    for piece in visitor.heard:
        samples = len(piece.samples) // _BYTES_PER_SAMPLE
        spoken = began + (piece.first + samples / 2) / HEARD_RATE
        heard.ages.append(piece.came_at - spoken)
        heard.seconds += samples / HEARD_RATE
    return heard


async def _send(visitor: LiveVisitor, recording: bytes, began: float) -> None:
    for number, piece in enumerate(slices(recording, SLICE_SECONDS), start=1):
        # A slice is there once it has been spoken.
        await asyncio.sleep(began + number * SLICE_SECONDS - time.perf_counter())
        await visitor.send(piece)
    await visitor.finish()


BUNDLE: Final = Path(__file__).parents[2] / "tests" / "data" / "bundles" / "mei"
SECONDS: Final = 10.0
_SEMITONES: Final = 12.0
"""With a shift that was asked for, nothing depends on the speaker's register."""

_STATE_FRAMES: Final = 16
_P95: Final = 95
_HEARD_SHARE: Final = 0.8  # of the recording; what comes after its end is not heard any more
_STAGGER_SECONDS: Final = 0.37


@dataclass(frozen=True, slots=True)
class PreviewExtent:
    """How much is measured."""

    seconds: float
    rounds: int
    visitors: tuple[int, ...]
    embedded: bool


FULL: Final = PreviewExtent(SECONDS, rounds=7, visitors=(1, 4, 8, 16), embedded=False)
QUICK: Final = PreviewExtent(4.0, rounds=1, visitors=(1, 2), embedded=False)


async def run(options: BenchmarkOptions) -> Report:
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


def _costs(engine: Engine, recording: Samples, plan: PreviewExtent) -> Table:
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


async def _ages(plan: PreviewExtent) -> Table:
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


async def _row(
    visitors: Visitors, count: int, recording: bytes, plan: PreviewExtent
) -> tuple[Cell, ...]:
    costs: list[Cell] = []
    found: dict[bool, Sequence[PreviewedSound]] = {}
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
) -> Sequence[PreviewedSound]:
    async def visit(number: int) -> PreviewedSound:
        await asyncio.sleep(number * _STAGGER_SECONDS)
        api = visitors.cloud.addresses.api
        return await speak(visitors.client, api, recording, hear=hear)

    return await asyncio.gather(*(visit(number) for number in range(count)))


def _summary(found: Sequence[PreviewedSound], seconds: float) -> tuple[Cell, ...]:
    ages = [age for heard_ in found for age in heard_.ages]
    whole = sum(one.is_whole and one.seconds > _HEARD_SHARE * seconds for one in found)
    done = sum(one.is_done for one in found)
    if not ages:
        return None, None, whole, done
    middle, late = (round(1000 * float(np.percentile(ages, share))) for share in (50, _P95))
    return middle, late, whole, done
