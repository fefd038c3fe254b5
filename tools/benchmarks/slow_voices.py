"""How long the visitor of a slow voice waits after the end of the speech.

The voice is an RVC voice of full size with random weights. The same recordings go by the upload
path and through `live`.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from infra.local.commands.visitor import RecordingRequest
from tools.benchmarks.live import SpeakingVisitor, SpokenRecording
from tools.benchmarks.random_graphs import CHARACTER, write_characters
from tools.benchmarks.recordings import SAMPLE_RATE, encoded, speech
from tools.benchmarks.report import Report, Table
from tools.benchmarks.voice_journeys import changed_environment, visited_cloud

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.benchmarks.report import BenchmarkOptions, Cell

PAUSE_SECONDS: Final = 1.0

RECORDINGS: Final = {
    "5 s without a pause": (5.0,),
    "3 s, a pause, 2 s": (3.0, 2.0),
    "3 s, a pause, 3 s, a pause, 2 s": (3.0, 3.0, 2.0),
}
"""How long is spoken between pauses."""

SERVICES: Final = {"upload": "convert", "live": "live"}
"""The ways that are compared, and the service that converts on each."""

Waits = dict[tuple[str, str], list[tuple[float, float]]]
"""Seconds from the end of the speech until the result is there, and of the service's processor."""


async def run(options: BenchmarkOptions) -> Report:
    """Measure the waits on both ways."""
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as folder:
        write_characters(Path(folder))
        with changed_environment({"CHARACTERS_DIR": folder}):
            async with visited_cloud(embedded=False) as visitors:
                speaking = SpeakingVisitor(
                    visitors.cloud, visitors.client, RecordingRequest(CHARACTER)
                )
                return _report(await _measure(speaking, 1 if options.quick else 3))


async def _measure(speaking: SpeakingVisitor, rounds: int) -> Waits:
    waits: Waits = defaultdict(list)
    recordings = {name: _spoken(parts) for name, parts in RECORDINGS.items()}
    ways = {"upload": speaking.upload, "live": speaking.live}
    for speak in ways.values():
        await speak(recordings["5 s without a pause"])
    for _, name, way in itertools.product(range(rounds), recordings, ways):
        before = speaking.cpu_seconds()[SERVICES[way]]
        wait = await ways[way](recordings[name])
        if wait is None:
            raise RuntimeError(f"a voice was not converted: {name}, {way}")
        waits[name, way].append((wait.playable, speaking.cpu_seconds()[SERVICES[way]] - before))
    return waits


def _spoken(parts: Sequence[float]) -> SpokenRecording:
    pause = np.zeros(round(PAUSE_SECONDS * SAMPLE_RATE), np.float32)
    pieces = [piece for part in parts for piece in (speech(part), pause)][:-1]
    samples = np.concatenate(pieces)
    return SpokenRecording(encoded(samples), len(samples) / SAMPLE_RATE)


def _report(waits: Waits) -> Report:
    def row(name: str) -> tuple[Cell, ...]:
        found = [waits[name, way] for way in SERVICES]
        seconds = [median(wait for wait, _ in each) for each in found]
        return (name, *seconds, *(median(cpu for _, cpu in each) for each in found))

    table = Table(
        "A slow voice: from the end of the speech until the result is there, s, medians",
        ("recording", *SERVICES, *(f"processor time: {way}" for way in SERVICES)),
        tuple(row(name) for name in RECORDINGS),
    )
    *_, (_, upload, live, _, _) = table.rows
    if not isinstance(upload, float) or not isinstance(live, float):
        raise TypeError("medians are numbers")
    return Report("ahead", (table,), ratios={"with two pauses, live / upload": live / upload})
