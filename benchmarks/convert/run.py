"""The cost of one conversion, stage by stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks.convert.graph_parts import PARTS, graph_inputs, measure_parts
from benchmarks.convert.stages import ENGINE, Workbench, memory_megabytes
from benchmarks.convert.storage import storage_server
from benchmarks.measuring.recordings import speech
from benchmarks.measuring.report import Report, Table
from functions.convert.settings import ConvertSettings
from infra.local.configuration import names
from infra.local.configuration.options import ROOT
from speech.bundles.reading import load_character
from speech.decoding.decoder import Decoder
from speech.engines.harmonic import content
from speech.engines.harmonic.engine import ROLE
from speech.engines.registry import ENGINES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.convert.stages import Stages
    from benchmarks.measuring.report import Cell, Options

CHARACTER: Final = "hina"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        lengths: of the recordings, in seconds.
        rounds: conversions of each.
        runs: of each graph.
        loads: fresh processes.
        typical: the length in seconds whose ratios are guarded.
    """

    lengths: tuple[float, ...]
    rounds: int
    runs: int
    loads: int
    typical: float = 5.0


FULL: Final = Extent(lengths=(1.0, 3.0, 5.0, 10.0), rounds=15, runs=25, loads=7)
QUICK: Final = Extent(lengths=(1.0, 5.0), rounds=3, runs=3, loads=2)


async def run(options: Options) -> Report:
    """Measure single conversions: stages, loading and formats."""
    plan = QUICK if options.quick else FULL
    folder = ConvertSettings.model_fields["characters_dir"].default / CHARACTER
    bundle = Loading.of([_load(str(folder)) for _ in range(plan.loads)])
    memory_before = memory_megabytes()
    character = load_character(folder, ENGINES)
    async with storage_server() as storage, Decoder() as decoder:
        bench = Workbench(character, decoder, storage.bucket(names.RESULTS_BUCKET))
        stages = await bench.measure(plan.lengths, plan.rounds)
        memory_after = memory_megabytes()
        formats = bench.measure_formats(speech(plan.typical)[::2], plan.rounds)
    parts = {
        seconds: measure_parts(
            character.graphs,
            graph_inputs(character.manifest, bench.content_size, seconds),
            plan.runs,
        )
        for seconds in plan.lengths
    }
    return Report(
        "convert",
        (
            _stages_table(stages, parts),
            _table_of_loads(bundle),
            Table(
                f"encoding {plan.typical:g} s, by format",
                ("format", "CPU ms"),
                tuple((str(kind), milliseconds) for kind, milliseconds in formats.items()),
            ),
        ),
        facts={
            "memory that loading and converting took, MB": memory_after - memory_before,
            "memory that loading alone takes, MB": bundle.megabytes,
            "character's graph, MB": len(character.graphs[ROLE].content) / 1e6,
            "shared encoder, MB": len(character.graphs[content.ROLE].content) / 1e6,
        },
        ratios=_ratios(stages[plan.typical], parts[plan.typical], bundle),
    )


def _ratios(stages: Stages, parts: Mapping[str, float], bundle: Loading) -> dict[str, float]:
    """Return the cost of each stage divided by the cost of one run of the graphs."""
    graphs = stages.milliseconds["graphs"]
    costs = {
        stage: stages.milliseconds[stage] / graphs
        for stage in ("decode", "resample", "pitch", "engine's rest", "encode", "upload")
    }
    network = parts["network"]
    return {
        **{f"{stage} / run of the graphs": cost for stage, cost in costs.items()},
        "hearing / network": parts["hearing"] / network,
        "synthesis / network": parts["synthesis"] / network,
        "loading the character / run of the graphs": bundle.cpu / graphs,
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
            seconds: stages[seconds].milliseconds["graphs"]
            * parts[seconds][name]
            / sum(parts[seconds].values())
            for seconds in lengths
        }

    for name in ("decode", "resample", "pitch"):
        add(name, stage(name))
    for name in PARTS:
        add(f"{name} (in the graphs)", part(name))
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
    graphs = stage("graphs")
    add("share of the bare `session.run`", {s: graphs[s] / totals[s] for s in lengths})
    add("share of all but the bare `session.run`", {s: 1 - graphs[s] / totals[s] for s in lengths})
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


def _table_of_loads(bundle: Loading) -> Table:
    checks, built = bundle.steps.values()
    return Table(
        "loading the character in a fresh process",
        ("checks, ms", "session and trial run, ms", "together", "CPU"),
        ((checks, built, checks + built, bundle.cpu),),
    )
