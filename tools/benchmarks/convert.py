"""The cost of one conversion, stage by stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
from google.cloud.storage import Client
from google.oauth2.service_account import Credentials

from functions.convert.settings import ConvertSettings
from infra.local.cloud import provisioning
from infra.local.configuration import names
from infra.local.configuration.environments import STORAGE_VARIABLE
from infra.local.configuration.keys import make_key
from infra.local.configuration.options import ROOT
from infra.local.processes.children import Supervisor
from shared.google.storage import CloudStorageBucket, Signer
from shared.speech.decoding.decoder import Decoder
from shared.speech.engines import content_encoder
from shared.speech.engines.harmonic import ROLE
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle_folders import load_character
from tools.benchmarks.convert_stages import (
    ENGINE,
    PARTS,
    StageMeasurement,
    graph_inputs,
    measure_parts,
    memory_megabytes,
)
from tools.benchmarks.recordings import speech
from tools.benchmarks.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from tools.benchmarks.convert_stages import StageTimes
    from tools.benchmarks.report import BenchmarkOptions, Cell


NOWHERE: Final = "127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class StorageServer:
    """A running storage server."""

    url: str
    pid: int
    key_file: Path

    def bucket(self, name: str) -> CloudStorageBucket:
        """Open a bucket."""
        signer = Signer(Credentials.from_service_account_file(str(self.key_file)))
        return CloudStorageBucket(Client(project=names.PROJECT_ID), name, signer)


@asynccontextmanager
async def storage_server() -> AsyncIterator[StorageServer]:
    """Start it, make the buckets, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as name:
        folder = Path(name)
        key_file, supervisor = folder / "key.json", Supervisor(folder / "logs")
        (port,) = supervisor.ports.free(1)
        make_key().write(key_file)
        url = f"http://127.0.0.1:{port}"
        module = (sys.executable, "-m", "infra.local.cloud.storage_service")
        command = (*module, str(port), str(folder / "storage"), str(key_file), NOWHERE)
        try:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            process = await supervisor.start("storage", command, environment)
            listing = f"{url}/storage/v1/b?project={names.PROJECT_ID}"
            await supervisor.wait_until_ready(process, listing)
            async with httpx.AsyncClient() as client:
                await provisioning.make_buckets(client, url, [])
            # The client library knows its emulator from nowhere else.
            os.environ[STORAGE_VARIABLE] = url
            yield StorageServer(url, process.pid, key_file)
        finally:
            await supervisor.stop_all()


CHARACTER: Final = "hina"


@dataclass(frozen=True, slots=True)
class ConvertExtent:
    """How much is measured.

    Attributes:
        lengths: of the recordings, in seconds.
        typical: the length in seconds whose ratios are guarded.
    """

    lengths: tuple[float, ...]
    rounds: int
    runs: int
    loads: int
    typical: float = 5.0


FULL: Final = ConvertExtent(lengths=(1.0, 3.0, 5.0, 10.0), rounds=15, runs=25, loads=7)
QUICK: Final = ConvertExtent(lengths=(1.0, 5.0), rounds=3, runs=3, loads=2)


async def run(options: BenchmarkOptions) -> Report:
    """Measure single conversions: stages, loading and formats."""
    plan = QUICK if options.quick else FULL
    folder = ConvertSettings.model_fields["characters_dir"].default / CHARACTER
    bundle = Loading.of([_load(str(folder)) for _ in range(plan.loads)])
    memory_before = memory_megabytes()
    character = load_character(folder, ENGINES)
    async with storage_server() as storage, Decoder() as decoder:
        bench = StageMeasurement(character, decoder, storage.bucket(names.RESULTS_BUCKET))
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
            "shared encoder, MB": len(character.graphs[content_encoder.ROLE].content) / 1e6,
        },
        ratios=_ratios(stages[plan.typical], parts[plan.typical], bundle),
    )


def _ratios(stages: StageTimes, parts: Mapping[str, float], bundle: Loading) -> dict[str, float]:
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
    stages: Mapping[float, StageTimes], parts: Mapping[float, Mapping[str, float]]
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
    command = (sys.executable, "-m", "tools.benchmarks.fresh_load", *arguments)
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
