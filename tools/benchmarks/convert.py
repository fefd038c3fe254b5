"""Measures the cost of one conversion, stage by stage, from the recording to the stored result."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil

from functions.convert.settings import ConvertSettings
from infra.local.configuration.options import ROOT
from shared.conversion.stopwatch import Stopwatch
from shared.ports import Bucket
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits, Recording
from shared.speech.engines import content_encoder
from shared.speech.engines.content_encoder import ContentEncoder
from shared.speech.engines.harmonic import ROLE, HarmonicEngine
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle import CharacterBundle
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import GraphSession, Inputs, SessionSettings
from shared.speech.results.audio_files import encode_result
from shared.speech.results.statement import Marking
from shared.speech.signal.sound import Samples
from shared.voices.voice import OutputFormat, new_voice_id
from tools.benchmarks.recordings import speech, webm
from tools.benchmarks.report import Cell, Report, Table
from tools.benchmarks.servers import results_bucket

CHARACTER: Final = "hina"
TYPICAL_SECONDS: Final = 5.0  # the recording whose ratios are guarded
LIMITS: Final = DecodeLimits(min_seconds=0.5, max_seconds=60)
ENGINE: Final = ("resample", "pitch", "graphs", "engine's rest")
DECODE_TO_ENCODE: Final = ("decode", *ENGINE, "encode")


Stages = Mapping[str, float]
"""Milliseconds of CPU time by stage; "graphs" is "hearing" and "speaking", the bare runs."""


def total(spent: Stages, stages: Sequence[str] = DECODE_TO_ENCODE) -> float:
    return sum(spent[stage] for stage in stages)


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
    character = load_character(folder, ENGINES)
    async with results_bucket() as bucket, Decoder() as decoder:
        bench = Workbench(character, decoder, bucket)
        stages = await bench.measure(lengths, rounds)
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
    graphs = stages["graphs"]
    return {
        **{
            f"{stage} / run of the graphs": stages[stage] / graphs
            for stage in ("decode", "resample", "pitch", "engine's rest", "encode", "upload")
        },
        "hearing / speaking": stages["hearing"] / stages["speaking"],
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


def _column(seconds: float, spent: Stages) -> dict[str, float]:
    share = spent["graphs"] / total(spent)
    return {
        **{name: spent[name] for name in ("decode", "resample", "pitch")},
        **{f"{name} (in the graphs)": spent[name] for name in ("hearing", "speaking")},
        **{name: spent[name] for name in ("engine's rest", "encode")},
        "**decode to encode**": total(spent),
        "upload": spent["upload"],
        "real-time factor, CPU": total(spent) / 1000 / seconds,
        "real-time factor of the engine alone": total(spent, ENGINE) / 1000 / seconds,
        "share of the bare `session.run`": share,
        "share of all but the bare `session.run`": 1 - share,
    }


class TimedSession(GraphSession):
    """A session that adds up the milliseconds of CPU time that the runtime takes."""

    milliseconds = 0.0

    def run(self, inputs: Inputs, output: str) -> Samples:
        begin = time.thread_time()
        audio = super().run(inputs, output)
        self.milliseconds += 1000 * (time.thread_time() - begin)
        return audio


class Workbench:
    """Converts recordings as the converter does, one stage after the other, on one thread."""

    def __init__(self, character: CharacterBundle, decoder: Decoder, results: Bucket) -> None:
        settings, manifest = SessionSettings(), character.manifest
        hearing = TimedSession(character.graphs[content_encoder.ROLE], settings, is_optimised=True)
        speaking = TimedSession(character.graphs[ROLE], settings, is_optimised=True)
        encoder = ContentEncoder(hearing)
        encoder.try_out(content_encoder.ROLE)
        self._sessions = (hearing, speaking)
        self._engine = HarmonicEngine(manifest, speaking, encoder)
        self._marking = Marking(manifest.id, manifest.name.en, manifest.credit)
        self._decoder = decoder
        self._results = results
        # One of them forks a process for each recording.
        self._children = tuple(child.pid for child in psutil.Process().children())

    async def measure(self, lengths: Sequence[float], rounds: int) -> dict[float, Stages]:
        """Convert recordings of some lengths alternately; return medians without the first."""
        recordings = {seconds: webm(seconds) for seconds in lengths}
        found: dict[float, list[Stages]] = {seconds: [] for seconds in lengths}
        for _ in range(rounds + 1):
            for seconds, recording in recordings.items():
                found[seconds].append(await self._convert(recording))
        return {seconds: _median(stages[1:]) for seconds, stages in found.items()}

    async def _convert(self, data: bytes) -> Stages:
        spent: dict[str, float] = {}
        forking = _milliseconds_of(self._children)
        with _counted(spent, "decode"):
            recording = await self._decoder.decode(data, limits=LIMITS)
        forking = _milliseconds_of(self._children) - forking
        spent["decode"] += 1000 * recording.cpu_seconds + forking
        samples = self._speak(recording, spent)
        with _counted(spent, "encode"):
            encoded = encode_result(
                samples, self._engine.sample_rate, OutputFormat.WAV, self._marking
            )
        with _counted(spent, "upload"):
            await self._results.write(
                f"{new_voice_id()}.wav",
                io.BytesIO(encoded.data),
                content_type=encoded.content_type,
                size=len(encoded.data),
            )
        return spent

    def _speak(self, recording: Recording, spent: dict[str, float]) -> Samples:
        watch = Stopwatch(time.thread_time)
        for session in self._sessions:
            session.milliseconds = 0.0
        begin = time.thread_time()
        samples = self._engine.convert(
            recording.samples, recording.sample_rate, ConversionOptions(), watch
        )
        whole = 1000 * (time.thread_time() - begin)
        stages = watch.milliseconds()
        spent["resample"], spent["pitch"] = stages["resample"], stages["f0"]
        hearing, speaking = (session.milliseconds for session in self._sessions)
        spent |= {"hearing": hearing, "speaking": speaking, "graphs": hearing + speaking}
        spent["engine's rest"] = whole - spent["resample"] - spent["pitch"] - spent["graphs"]
        return samples

    def measure_formats(self, samples: Samples, rounds: int) -> dict[OutputFormat, float]:
        found: dict[OutputFormat, list[float]] = {kind: [] for kind in OutputFormat}
        for _ in range(rounds + 1):
            for kind, times in found.items():
                begin = time.process_time()
                encode_result(samples, self._engine.sample_rate, kind, self._marking)
                times.append(1000 * (time.process_time() - begin))
        return {kind: median(times[1:]) for kind, times in found.items()}


def _median(stages: Sequence[Stages]) -> Stages:
    return {name: median(one[name] for one in stages) for name in stages[0]}


@contextmanager
def _counted(spent: dict[str, float], stage: str) -> Iterator[None]:
    begin = time.process_time()
    yield
    spent[stage] = 1000 * (time.process_time() - begin)


def _milliseconds_of(processes: Sequence[int]) -> float:
    figures = (Path(f"/proc/{process}/schedstat").read_text() for process in processes)
    return sum(int(figure.split()[0]) for figure in figures) / 1e6
