"""The stages of a conversion, from the recording's bytes to the stored result, by CPU time."""

from __future__ import annotations

import io
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks.measuring.recordings import webm
from conversion.stopwatch import Stopwatch
from shared.voices.voice import OutputFormat, new_voice_id
from speech.decoding.recordings.recording import DecodeLimits
from speech.engines.harmonic import content
from speech.engines.harmonic.content import ContentEncoder
from speech.engines.harmonic.engine import ROLE, HarmonicEngine
from speech.engines.interface.engine import ConversionOptions
from speech.networks.session import GraphSession, Inputs
from speech.networks.settings import SessionSettings
from speech.results.encoding import encode
from speech.results.marking import Marking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.ports.bucket import Bucket
    from speech.bundles.bundle import Character
    from speech.decoding.decoder import Decoder
    from speech.decoding.recordings.recording import Recording
    from speech.signal.arrays import Samples

LIMITS: Final = DecodeLimits(min_seconds=0.5, max_seconds=60)

DECODED_TO_ENCODED: Final = ("decode", "resample", "pitch", "graphs", "engine's rest", "encode")
"""The stages of what the real-time factor of a whole conversion is about."""

ENGINE: Final = ("resample", "pitch", "graphs", "engine's rest")


class TimedSession(GraphSession):
    """A session that counts what it spends in the runtime.

    Attributes:
        milliseconds: of the processor, since this was set to 0.
    """

    milliseconds = 0.0

    def run(self, inputs: Inputs, output: str) -> Samples:
        """Run the graph and count."""
        begin = time.thread_time()
        audio = super().run(inputs, output)
        self.milliseconds += 1000 * (time.thread_time() - begin)
        return audio


@dataclass(frozen=True, slots=True)
class Stages:
    """One recording's conversion.

    Attributes:
        milliseconds: of the processor, by stage; "graphs" is the bare runs of both graphs.
        wall_milliseconds: from the recording's bytes to the result's, by the clock.
    """

    milliseconds: Mapping[str, float]
    wall_milliseconds: float

    def total(self, stages: Sequence[str] = DECODED_TO_ENCODED) -> float:
        """Add up stages."""
        return sum(self.milliseconds[stage] for stage in stages)


class Workbench:
    """Converts recordings as the converter does, one stage after the other, on one thread.

    Args:
        character: a verified character of the engine `harmonic` that hears with the shared encoder.
        decoder: decodes; it must be ready.
        results: takes results.

    Attributes:
        content_size: how many numbers the encoder gives for each frame.
    """

    def __init__(self, character: Character, decoder: Decoder, results: Bucket) -> None:
        settings = SessionSettings()
        hearing = TimedSession(character.graphs[content.ROLE], settings, is_optimised=True)
        speaking = TimedSession(character.graphs[ROLE], settings, is_optimised=True)
        encoder = ContentEncoder(hearing)
        self.content_size = encoder.try_out(content.ROLE)
        self._sessions = (hearing, speaking)
        self._engine = HarmonicEngine(character.manifest, speaking, encoder)
        manifest = character.manifest
        self._marking = Marking(manifest.id, manifest.name.en, manifest.credit)
        self._decoder = decoder
        self._results = results
        # Among them the one that forks a process for each recording.
        self._children = tuple(child.pid for child in psutil.Process().children())

    async def measure(self, lengths: Sequence[float], rounds: int) -> dict[float, Stages]:
        """Convert recordings of these lengths alternately; medians without the first round."""
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
            encoded = encode(samples, self._engine.sample_rate, OutputFormat.WAV, self._marking)
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
        engine_stages = watch.milliseconds()
        spent["resample"], spent["pitch"] = engine_stages["resample"], engine_stages["f0"]
        spent["graphs"] = sum(session.milliseconds for session in self._sessions)
        spent["engine's rest"] = whole - spent["resample"] - spent["pitch"] - spent["graphs"]
        return samples

    def measure_formats(self, samples: Samples, rounds: int) -> dict[OutputFormat, float]:
        """Return the milliseconds that encoding samples takes, by format."""
        found: dict[OutputFormat, list[float]] = {kind: [] for kind in OutputFormat}
        for _ in range(rounds + 1):
            for kind, times in found.items():
                begin = time.process_time()
                encode(samples, self._engine.sample_rate, kind, self._marking)
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
    """Count the processor time of this process, all its threads, to a stage."""
    begin = time.process_time()
    yield
    spent[stage] = 1000 * (time.process_time() - begin)


def _milliseconds_of(processes: Sequence[int]) -> float:
    """Return the processor time of other processes, by the scheduler, which counts nanoseconds."""
    figures = (Path(f"/proc/{process}/schedstat").read_text() for process in processes)
    return sum(int(figure.split()[0]) for figure in figures) / 1e6


def memory_megabytes() -> float:
    """Read how much memory this process holds."""
    return float(psutil.Process().memory_info().rss / 1e6)
