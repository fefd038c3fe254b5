"""What an RVC voice of full size costs on a processor.

The voice has random weights, so its output is noise and its quality is not measured.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.characters.manifest import read_manifest
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.rvc import RvcEngine
from shared.speech.engines.rvc_networks import (
    OnnxContentEncoder,
    OnnxSynthesizer,
    RvcNetworks,
    RvcOptions,
    draw_synthesizer_noise,
)
from shared.speech.engines.rvc_signal import contour, frame_count
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.onnx_files import inspect_model
from shared.speech.graphs.sessions import GraphSession, SessionSettings
from shared.speech.signal.samples import resample
from tools.benchmarks import random_graphs
from tools.benchmarks.recordings import SAMPLE_RATE, speech
from tools.benchmarks.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tools.benchmarks.report import BenchmarkOptions, Cell

MANIFEST: Final = Path(__file__).parents[2] / "tests" / "data" / "bundles" / "mei"
"""Any manifest will do: what an RVC voice needs otherwise is put into it."""

_NETWORK_RATE: Final = 16_000
_HERTZ: Final = 150.0
_ENCODER: Final = "content encoder"
_SYNTHESIZER: Final = "synthesizer"
_CONVERSION: Final = "whole conversion"


@dataclass(frozen=True, slots=True)
class RvcExtent:
    """How much is measured."""

    seconds: float
    rounds: int
    threads: tuple[int, ...]


FULL: Final = RvcExtent(5.0, rounds=3, threads=(1, 2))
QUICK: Final = RvcExtent(1.0, rounds=1, threads=(1,))

Runs = dict[tuple[str, int], "Callable[[], object]"]
Costs = dict[tuple[str, int], tuple[float, float]]
"""Seconds of the processor and by the clock per second of the recording, by run and threads."""


def run(options: BenchmarkOptions) -> Report:
    """Measure the networks one by one, and whole conversions."""
    plan = QUICK if options.quick else FULL
    encoder, synthesizer = random_graphs.content_encoder(), random_graphs.synthesizer()
    runs: Runs = {}
    for threads in plan.threads:
        runs |= _runs(encoder, synthesizer, threads, plan.seconds)
    costs = _measure(runs, plan)
    return Report(
        "rvc",
        (_table(f"{plan.seconds:g} s of speech; per second of it", costs),),
        facts={
            "content encoder, MB": len(encoder) / 1e6,
            "synthesizer, MB": len(synthesizer) / 1e6,
            "runs that each figure is the median of": plan.rounds,
            "load average of the machine meanwhile": os.getloadavg()[1],
        },
        ratios={"content encoder / synthesizer": costs[_ENCODER, 1][0] / costs[_SYNTHESIZER, 1][0]},
    )


def _runs(encoder_file: bytes, synthesizer_file: bytes, threads: int, seconds: float) -> Runs:
    graph, session = _load("content", encoder_file, threads)
    encoder = OnnxContentEncoder(graph, session, random_graphs.CONTENT_CHANNELS, None)
    synthesizer = OnnxSynthesizer(
        *_load("synthesizer", synthesizer_file, threads), random_graphs.SAMPLE_RATE
    )
    changes = {"engine": "rvc", "sample_rate": random_graphs.SAMPLE_RATE, "pitch": None}
    manifest = read_manifest(MANIFEST).model_copy(update=changes)
    engine = RvcEngine(manifest, RvcNetworks(encoder, synthesizer, None, RvcOptions()))

    recording = speech(seconds)
    wave = resample(recording, SAMPLE_RATE, _NETWORK_RATE)
    random, frames = np.random.default_rng(0), frame_count(len(wave))
    features = random.standard_normal((frames, random_graphs.CONTENT_CHANNELS), np.float32)
    told = contour(np.full(frames, _HERTZ, np.float32))
    noise = draw_synthesizer_noise(random, frames, synthesizer)
    return {
        (_ENCODER, threads): partial(encoder.encode, wave),
        (_SYNTHESIZER, threads): partial(synthesizer.speak, features, told, 0, noise),
        (_CONVERSION, threads): partial(
            engine.convert, recording, SAMPLE_RATE, ConversionOptions()
        ),
    }


def _load(name: str, content: bytes, threads: int) -> tuple[Graph, GraphSession]:
    graph = Graph(f"{name}.onnx", content, inspect_model(content))
    return graph, GraphSession(graph, SessionSettings(threads=threads))


def _measure(runs: Runs, plan: RvcExtent) -> Costs:
    """Run all choices alternately; each cost is the median, without the first round."""
    seen: dict[tuple[str, int], list[tuple[float, float]]] = {key: [] for key in runs}
    for _ in range(plan.rounds + 1):
        for key, run_once in runs.items():
            cpu, wall = time.process_time(), time.perf_counter()
            run_once()
            elapsed = time.perf_counter() - wall
            used = time.process_time() - cpu
            seen[key].append((used / plan.seconds, elapsed / plan.seconds))
    return {
        key: (median(cpu for cpu, _ in costs[1:]), median(wall for _, wall in costs[1:]))
        for key, costs in seen.items()
    }


def _table(title: str, costs: Mapping[tuple[str, int], tuple[float, float]]) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *costs[name, 1], *costs.get((name, 2), (None, None)))
        for name in (_ENCODER, _SYNTHESIZER, _CONVERSION)
    )
    columns = ("1 thread, CPU s", "1 thread, wall s", "2 threads, CPU s", "2 threads, wall s")
    return Table(title, ("what", *columns), rows)
