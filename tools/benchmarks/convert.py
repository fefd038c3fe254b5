"""Measures the cost of one conversion, stage by stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from statistics import median
from typing import Final, NamedTuple

from functions.convert.settings import ConvertSettings
from infra.local.configuration.options import ROOT
from shared.speech.decoding.decoder import Decoder
from shared.speech.engines import content_encoder
from shared.speech.engines.harmonic import ROLE
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle_folders import load_character
from tools.benchmarks.convert_stages import ENGINE, Stages, Workbench, memory_megabytes
from tools.benchmarks.recordings import speech
from tools.benchmarks.report import Cell, Report, Table
from tools.benchmarks.servers import results_bucket

CHARACTER: Final = "hina"
TYPICAL_SECONDS: Final = 5.0  # the recording whose ratios are guarded


class Loads(NamedTuple):
    """Medians of fresh processes that load the character: milliseconds, and megabytes."""

    checks: float
    building: float
    cpu: float
    megabytes: float


async def run(*, quick: bool) -> Report:
    lengths = (1.0, TYPICAL_SECONDS) if quick else (1.0, 3.0, TYPICAL_SECONDS, 10.0)
    rounds, processes = (3, 2) if quick else (15, 7)
    folder = ConvertSettings.model_fields["characters_dir"].default / CHARACTER
    loads = measure_loads(str(folder), processes)
    memory_before = memory_megabytes()
    character = load_character(folder, ENGINES)
    async with results_bucket() as bucket, Decoder() as decoder:
        bench = Workbench(character, decoder, bucket)
        stages = await bench.measure(lengths, rounds)
        memory_after = memory_megabytes()
        formats = bench.measure_formats(speech(TYPICAL_SECONDS)[::2], rounds)
    return Report(
        "convert",
        (
            _stages_table(stages),
            Table(
                "loading the character in a fresh process",
                ("checks, ms", "session and trial run, ms", "together", "CPU"),
                ((loads.checks, loads.building, loads.checks + loads.building, loads.cpu),),
            ),
            Table(
                f"encoding {TYPICAL_SECONDS:g} s, by format",
                ("format", "CPU ms"),
                tuple((str(kind), milliseconds) for kind, milliseconds in formats.items()),
            ),
        ),
        facts={
            "memory that loading and converting took, MB": memory_after - memory_before,
            "memory that loading alone takes, MB": loads.megabytes,
            "character's graph, MB": len(character.graphs[ROLE].content) / 1e6,
            "shared encoder, MB": len(character.graphs[content_encoder.ROLE].content) / 1e6,
        },
        ratios=_ratios(stages[TYPICAL_SECONDS], loads),
    )


def measure_loads(folder: str, processes: int) -> Loads:
    command = (sys.executable, "-m", "tools.benchmarks.start_parts", "character", folder)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = []
    for _ in range(processes):
        done = subprocess.run(command, check=True, capture_output=True, env=environment)
        found.append(json.loads(done.stdout))
    return Loads(*(float(median(one[name] for one in found)) for name in Loads._fields))


def _ratios(stages: Stages, loads: Loads) -> dict[str, float]:
    graphs = stages.milliseconds["graphs"]
    return {
        **{
            f"{stage} / run of the graphs": stages.milliseconds[stage] / graphs
            for stage in ("decode", "resample", "pitch", "engine's rest", "encode", "upload")
        },
        "hearing / speaking": stages.milliseconds["hearing"] / stages.milliseconds["speaking"],
        "loading the character / run of the graphs": loads.cpu / graphs,
    }


def _stages_table(stages: Mapping[float, Stages]) -> Table:
    columns = [_column(seconds, each) for seconds, each in stages.items()]
    rows: list[tuple[Cell, ...]] = [
        (name, *(column[name] for column in columns)) for name in columns[0]
    ]
    headings = (f"{seconds:g} s of speech" for seconds in stages)
    return Table(
        "a conversion, stage by stage", ("stage, CPU ms on one thread", *headings), tuple(rows)
    )


def _column(seconds: float, stages: Stages) -> dict[str, float]:
    spent, total = stages.milliseconds, stages.total()
    share = spent["graphs"] / total
    return {
        **{name: spent[name] for name in ("decode", "resample", "pitch")},
        **{f"{name} (in the graphs)": spent[name] for name in ("hearing", "speaking")},
        **{name: spent[name] for name in ("engine's rest", "encode")},
        "**decode to encode**": total,
        "upload": spent["upload"],
        "real-time factor, CPU": total / 1000 / seconds,
        "real-time factor, by the clock": stages.wall_milliseconds / 1000 / seconds,
        "real-time factor of the engine alone": stages.total(ENGINE) / 1000 / seconds,
        "share of the bare `session.run`": share,
        "share of all but the bare `session.run`": 1 - share,
    }
