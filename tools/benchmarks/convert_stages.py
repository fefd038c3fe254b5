"""Measures the stages of a conversion, from the recording to the stored result, in CPU time."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from shared.conversion.stopwatch import Stopwatch
from shared.ports import Bucket
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits, Recording
from shared.speech.engines import content_encoder
from shared.speech.engines.content_encoder import ContentEncoder
from shared.speech.engines.harmonic import ROLE, HarmonicEngine
from shared.speech.engines.interface import ConversionOptions
from shared.speech.graphs.bundle import CharacterBundle
from shared.speech.graphs.sessions import GraphSession, Inputs, SessionSettings
from shared.speech.results.audio_files import encode_result
from shared.speech.results.statement import Marking
from shared.speech.signal.sound import Samples
from shared.voices.voice import OutputFormat, new_voice_id
from tools.benchmarks.recordings import webm

LIMITS: Final = DecodeLimits(min_seconds=0.5, max_seconds=60)
ENGINE: Final = ("resample", "pitch", "graphs", "engine's rest")
DECODE_TO_ENCODE: Final = ("decode", *ENGINE, "encode")


class TimedSession(GraphSession):
    """A session that adds up the milliseconds of CPU time that the runtime takes."""

    milliseconds = 0.0

    def run(self, inputs: Inputs, output: str) -> Samples:
        begin = time.thread_time()
        audio = super().run(inputs, output)
        self.milliseconds += 1000 * (time.thread_time() - begin)
        return audio


@dataclass(frozen=True, slots=True)
class Stages:
    """The time of one recording's conversion.

    Attributes:
        milliseconds: CPU time by stage; "graphs" is "hearing" and "speaking", the bare runs.
        wall_milliseconds: by the clock, from the recording's bytes to the result's.
    """

    milliseconds: Mapping[str, float]
    wall_milliseconds: float

    def total(self, stages: Sequence[str] = DECODE_TO_ENCODE) -> float:
        return sum(self.milliseconds[stage] for stage in stages)


class Workbench:
    """Converts recordings as the converter does, one stage after the other, on one thread."""

    def __init__(self, character: CharacterBundle, decoder: Decoder, results: Bucket) -> None:
        settings, manifest = SessionSettings(), character.manifest
        hearing = TimedSession(character.graphs[content_encoder.ROLE], settings, is_optimised=True)
        speaking = TimedSession(character.graphs[ROLE], settings, is_optimised=True)
        encoder = ContentEncoder(hearing)
        self.content_size = encoder.try_out(content_encoder.ROLE)
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
        wall = time.perf_counter()
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
        wall_milliseconds = 1000 * (time.perf_counter() - wall)
        with _counted(spent, "upload"):
            await self._results.write(
                f"{new_voice_id()}.wav",
                io.BytesIO(encoded.data),
                content_type=encoded.content_type,
                size=len(encoded.data),
            )
        return Stages(spent, wall_milliseconds)

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
    names = stages[0].milliseconds
    return Stages(
        {name: median(one.milliseconds[name] for one in stages) for name in names},
        median(one.wall_milliseconds for one in stages),
    )


@contextmanager
def _counted(spent: dict[str, float], stage: str) -> Iterator[None]:
    begin = time.process_time()
    yield
    spent[stage] = 1000 * (time.process_time() - begin)


def _milliseconds_of(processes: Sequence[int]) -> float:
    figures = (Path(f"/proc/{process}/schedstat").read_text() for process in processes)
    return sum(int(figure.split()[0]) for figure in figures) / 1e6


def memory_megabytes() -> float:
    return float(psutil.Process().memory_info().rss / 1e6)
