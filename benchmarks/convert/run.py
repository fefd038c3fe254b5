"""What one conversion costs, stage by stage, and how alternatives compare."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from benchmarks.convert.graph_parts import PARTS, float32_copy, measure_parts
from benchmarks.convert.sessions import CHOICES, Choice, graph_inputs, time_runs
from benchmarks.convert.stages import ENGINE, Workbench, memory_megabytes
from benchmarks.convert.storage import storage_server
from benchmarks.convert.weights import (
    log_spectral_distance_db,
    signal_to_difference_db,
    spoken,
    variants,
)
from benchmarks.measuring.recordings import SAMPLE_RATE, speech
from benchmarks.measuring.report import Report, Table
from functions.convert.settings import ConvertSettings
from infra.local.configuration import names
from infra.local.configuration.options import ROOT
from speech.bundles.reading import load_character
from speech.decoding.decoder import Decoder
from speech.engines.harmonic.engine import ROLE
from speech.engines.interface.engine import ConversionOptions
from speech.engines.registry import ENGINES, build_engine
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.convert.stages import Stages
    from benchmarks.measuring.report import Cell, Options
    from speech.bundles.bundle import Character
    from speech.signal.arrays import Samples

CHARACTER: Final = "mei"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        lengths: of the recordings, in seconds.
        rounds: conversions of each.
        runs: of a graph for each choice.
        loads: fresh processes.
        uneven: recordings of different lengths, for the buckets.
        typical: the length in seconds for comparisons at a single length.
    """

    lengths: tuple[float, ...]
    rounds: int
    runs: int
    loads: int
    uneven: int
    typical: float = 5.0


FULL: Final = Plan(lengths=(1.0, 3.0, 5.0, 10.0), rounds=15, runs=25, loads=7, uneven=24)
QUICK: Final = Plan(lengths=(1.0, 5.0), rounds=3, runs=3, loads=2, uneven=4)


async def run(options: Options) -> Report:
    """Measure single conversions: stages, loading and alternatives."""
    plan = QUICK if options.quick else FULL
    folder = ConvertSettings.model_fields["characters_dir"].default / CHARACTER
    bundle = _load_bundle(folder, plan.loads)
    memory_before = memory_megabytes()
    character = load_character(folder, ENGINES)
    async with storage_server() as storage, Decoder() as decoder:
        bench = Workbench(character, decoder, storage.bucket(names.RESULTS_BUCKET))
        stages = await bench.measure(plan.lengths, plan.rounds)
        memory_after = memory_megabytes()
        formats = bench.measure_formats(speech(plan.typical)[::2], plan.rounds)
    parts = {
        seconds: measure_parts(
            character.graphs[ROLE].content,
            Choice("profiled").options(),
            graph_inputs(character.manifest, seconds),
            plan.runs,
        )
        for seconds in plan.lengths
    }
    return Report(
        "convert",
        (
            _stages_table(stages, parts),
            _table_of_loads(bundle, _load_alternatives(character.graphs[ROLE].content, plan.loads)),
            _table_of_choices(character, plan),
            _table_of_weights(character, plan),
            _table_of_lengths(character, plan),
            Table(
                f"encoding {plan.typical:g} s, by format",
                ("format", "CPU ms"),
                tuple((str(kind), milliseconds) for kind, milliseconds in formats.items()),
            ),
        ),
        facts={
            "memory that loading and converting took, MB": memory_after - memory_before,
            "memory that loading alone takes, MB": bundle.megabytes,
            "character bundle's graph, MB": len(character.graphs[ROLE].content) / 1e6,
        },
        ratios=_ratios(stages[plan.typical], parts[plan.typical], bundle),
    )


def _ratios(stages: Stages, parts: Mapping[str, float], bundle: Loading) -> dict[str, float]:
    """Return the cost of each stage divided by the cost of one run of the graph."""
    graph = stages.milliseconds["graph"]
    costs = {
        stage: stages.milliseconds[stage] / graph
        for stage in ("decode", "resample", "pitch", "engine's rest", "encode", "upload")
    }
    network = parts["network"]
    return {
        **{f"{stage} / run of the graph": cost for stage, cost in costs.items()},
        "features / network": parts["features"] / network,
        "synthesis / network": parts["synthesis"] / network,
        "loading the character / run of the graph": bundle.cpu / graph,
    }


def _stages_table(
    stages: Mapping[float, Stages], parts: Mapping[float, Mapping[str, float]]
) -> Table:
    lengths = tuple(stages)
    rows: list[tuple[Cell, ...]] = []

    def add(name: str, of: Mapping[float, float]) -> None:
        rows.append((name, *(of[seconds] for seconds in lengths)))

    def stage(name: str) -> dict[float, float]:
        return {seconds: stages[seconds].milliseconds[name] for seconds in lengths}

    def part(name: str) -> dict[float, float]:
        # The profiler's own time is not the conversion's: its shares count.
        return {
            seconds: stages[seconds].milliseconds["graph"]
            * parts[seconds][name]
            / sum(parts[seconds].values())
            for seconds in lengths
        }

    network = part("network")
    for name in ("decode", "resample", "pitch"):
        add(name, stage(name))
    for name in PARTS:
        add(f"{name} (in the graph)", part(name))
    for name in ("engine's rest", "encode"):
        add(name, stage(name))
    totals = {seconds: stages[seconds].total() for seconds in lengths}
    add("**decode to encode**", totals)
    add("upload", stage("upload"))
    add("real-time factor, CPU", {s: totals[s] / 1000 / s for s in lengths})
    add(
        "real-time factor, by the clock",
        {s: stages[s].wall_milliseconds / 1000 / s for s in lengths},
    )
    add(
        "real-time factor of the engine alone",
        {s: stages[s].total(ENGINE) / 1000 / s for s in lengths},
    )
    graph = stage("graph")
    add("share of the bare `session.run`", {s: graph[s] / totals[s] for s in lengths})
    add("share of all but the bare `session.run`", {s: 1 - graph[s] / totals[s] for s in lengths})
    add(
        "share of all but the network, first to last convolution",
        {s: 1 - network[s] / totals[s] for s in lengths},
    )
    columns = ("stage, CPU ms on one thread", *(f"{seconds:g} s of speech" for seconds in lengths))
    return Table("a conversion, stage by stage", columns, tuple(rows))


@dataclass(frozen=True, slots=True)
class Loading:
    """How a fresh process loaded something; medians.

    Attributes:
        steps: milliseconds by step.
        cpu: processor milliseconds of all of them.
        megabytes: of memory.
    """

    steps: Mapping[str, float]
    cpu: float
    megabytes: float

    @classmethod
    def of(cls, found: Sequence[Any]) -> Self:
        """Summarise what `load_once` printed."""
        steps = {
            name: float(median(one["steps"][name] for one in found)) for name in found[0]["steps"]
        }
        cpu, megabytes = (median(one[name] for one in found) for name in ("cpu", "megabytes"))
        return cls(steps, float(cpu), float(megabytes))


def _load(*arguments: str) -> Any:
    command = (sys.executable, "-m", "benchmarks.convert.load_once", *arguments)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=True, capture_output=True, env=environment)
    return json.loads(done.stdout)


def _load_bundle(folder: Path, count: int) -> Loading:
    return Loading.of([_load(str(folder)) for _ in range(count)])


def _load_alternatives(content: bytes, count: int) -> dict[str, Loading]:
    """Load a graph as it is and in its alternatives, alternately."""
    alternatives = {
        "as it is": (content, "none"),
        "optimised when it is loaded": (content, "basic"),
        "with float32 weights": (float32_copy(content), "none"),
    }
    found: dict[str, list[Any]] = {name: [] for name in alternatives}
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as folder:
        for number, (graph, _) in enumerate(alternatives.values()):
            (Path(folder) / str(number)).write_bytes(graph)
        for _ in range(count):
            for number, (name, (_, level)) in enumerate(alternatives.items()):
                found[name].append(_load(str(Path(folder) / str(number)), level))
    return {name: Loading.of(loads) for name, loads in found.items()}


def _table_of_loads(bundle: Loading, alternatives: Mapping[str, Loading]) -> Table:
    names = tuple(next(iter(alternatives.values())).steps)
    columns = ("loaded in a fresh process", *(f"{name}, ms" for name in names), "together", "CPU")
    rows: list[tuple[Cell, ...]] = [
        (
            f"the graph {name}",
            *(one.steps[step] for step in names),
            sum(one.steps.values()),
            one.cpu,
        )
        for name, one in alternatives.items()
    ]
    checks, built = bundle.steps.values()
    rows.append(("**the bundle**", checks, None, None, built, None, checks + built, bundle.cpu))
    return Table("loading the character: checks, then session and trial run", columns, tuple(rows))


def _table_of_choices(character: Character, plan: Plan) -> Table:
    content = character.graphs[ROLE].content
    inputs = graph_inputs(character.manifest, plan.typical)
    loading, megabytes, sessions = [], [], []
    for choice in CHOICES:
        begin, before = time.process_time(), memory_megabytes()
        session = choice.open(content)
        loading.append(1000 * (time.process_time() - begin))
        spoken(session, inputs)
        megabytes.append(memory_megabytes() - before)
        sessions.append(session)
    runs = time_runs(sessions, inputs, plan.runs)
    columns = (
        "session",
        "load, CPU ms",
        f"run of {plan.typical:g} s, CPU ms",
        "by the clock, ms",
        "memory, MB",
    )
    rows = tuple(
        (choice.name, load, one.cpu, one.wall, memory)
        for choice, load, one, memory in zip(CHOICES, loading, runs, megabytes, strict=True)
    )
    return Table("choices of ONNX Runtime", columns, rows)


def _table_of_weights(character: Character, plan: Plan) -> Table:
    contents = variants(character.graphs[ROLE].content)
    inputs = graph_inputs(character.manifest, plan.typical)
    choice = Choice("as the converter does")
    sessions, loading = [], []
    for content in contents.values():
        begin = time.process_time()
        sessions.append(choice.open(content))
        loading.append(1000 * (time.process_time() - begin))
    runs = time_runs(sessions, inputs, max(plan.runs // 2, 1))
    voices = [spoken(session, inputs) for session in sessions]
    hop = character.manifest.sample_rate // 100
    rows = tuple(
        (
            name,
            len(contents[name]) / 1e6,
            load,
            one.cpu,
            signal_to_difference_db(voices[0], voice),
            log_spectral_distance_db(voices[0], voice, hop),
        )
        for name, load, one, voice in zip(contents, loading, runs, voices, strict=True)
    )
    columns = (
        "weights",
        "file, MB",
        "load, CPU ms",
        f"run of {plan.typical:g} s, CPU ms",
        "signal to difference, dB",
        "log-spectral distance, dB",
    )
    return Table("smaller weights, and what is heard of them", columns, rows)


def _table_of_lengths(character: Character, plan: Plan) -> Table:
    """Convert recordings of ever new lengths as they are, and padded to a few lengths."""
    steps = {"as long as it is": 0.0, "padded to half seconds": 0.5, "padded to seconds": 1.0}
    engine = build_engine(character, SessionSettings())
    lengths = [1.0 + 9.0 * (0.618 * index % 1) for index in range(plan.uneven)]
    spent = dict.fromkeys(steps, 0.0)
    for seconds in lengths:
        for name, step in steps.items():
            samples = _padded(speech(seconds), step)
            begin = time.thread_time()
            engine.convert(samples, SAMPLE_RATE, ConversionOptions())
            spent[name] += 1000 * (time.thread_time() - begin)
    rows = tuple((name, total / sum(lengths)) for name, total in spent.items())
    return Table(
        "recordings of ever new lengths in one engine",
        ("the graph's input", "CPU ms per second of speech"),
        rows,
    )


def _padded(samples: Samples, step: float) -> Samples:
    if not step:
        return samples
    unit = round(step * SAMPLE_RATE)
    padded: Samples = np.pad(samples, (0, -len(samples) % unit))
    return padded
