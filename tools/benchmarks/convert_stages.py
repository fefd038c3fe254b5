"""The stages of a conversion, from the recording's bytes to the stored result, by CPU time."""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
import onnxruntime
import psutil

from shared.conversion.stopwatch import Stopwatch
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.engines import content_encoder
from shared.speech.engines.content_encoder import ContentEncoder
from shared.speech.engines.harmonic import ROLE, HarmonicEngine
from shared.speech.engines.interface import ConversionOptions
from shared.speech.graphs.sessions import GraphSession, Inputs, SessionSettings
from shared.speech.results.audio_files import encode_result
from shared.speech.results.statement import Marking
from shared.speech.signal.analysis import analyse
from shared.speech.signal.pitch import HOP
from shared.speech.signal.pitch_shift import plan_pitch
from shared.speech.signal.sound import NoClock
from shared.voices.voice import OutputFormat, new_voice_id
from tools.benchmarks.recordings import SAMPLE_RATE, speech, webm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from shared.characters.manifest import CharacterManifest
    from shared.ports import Bucket
    from shared.speech.decoding.decoder import Decoder
    from shared.speech.decoding.recording import Recording
    from shared.speech.graphs.bundle import CharacterBundle, Graph
    from shared.speech.signal.sound import Samples


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
class StageTimes:
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


class StageMeasurement:
    """Converts recordings as the converter does, one stage after the other, on one thread.

    Args:
        character: a verified character of the engine `harmonic` that hears with the shared encoder.

    Attributes:
        content_size: how many numbers the encoder gives for each frame.
    """

    def __init__(self, character: CharacterBundle, decoder: Decoder, results: Bucket) -> None:
        settings = SessionSettings()
        hearing = TimedSession(character.graphs[content_encoder.ROLE], settings, is_optimised=True)
        speaking = TimedSession(character.graphs[ROLE], settings, is_optimised=True)
        encoder = ContentEncoder(hearing)
        self.content_size = encoder.try_out(content_encoder.ROLE)
        self._sessions = (hearing, speaking)
        self._engine = HarmonicEngine(character.manifest, speaking, encoder)
        manifest = character.manifest
        self._marking = Marking(manifest.id, manifest.name.en, manifest.credit)
        self._decoder = decoder
        self._results = results
        # Among them the one that forks a process for each recording.
        self._children = tuple(child.pid for child in psutil.Process().children())

    async def measure(self, lengths: Sequence[float], rounds: int) -> dict[float, StageTimes]:
        """Convert recordings of these lengths alternately; medians without the first round."""
        recordings = {seconds: webm(seconds) for seconds in lengths}
        found: dict[float, list[StageTimes]] = {seconds: [] for seconds in lengths}
        for _ in range(rounds + 1):
            for seconds, recording in recordings.items():
                found[seconds].append(await self._convert(recording))
        return {seconds: _median(stages[1:]) for seconds, stages in found.items()}

    async def _convert(self, data: bytes) -> StageTimes:
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
        return StageTimes(spent, wall_milliseconds)

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
                encode_result(samples, self._engine.sample_rate, kind, self._marking)
                times.append(1000 * (time.process_time() - begin))
        return {kind: median(times[1:]) for kind, times in found.items()}


def _median(stages: Sequence[StageTimes]) -> StageTimes:
    names = stages[0].milliseconds
    return StageTimes(
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


GraphInputs = dict[str, "npt.NDArray[np.float32]"]

PARTS: Final = ("hearing", "network", "synthesis")
_KERNEL: Final = "_kernel_time"


def measure_parts(
    graphs: Mapping[str, Graph], inputs: GraphInputs, rounds: int
) -> dict[str, float]:
    """Return the milliseconds that one run spends in each part, by the runtime's own profiler.

    Args:
        graphs: of the roles `content` and `harmonic`.
    """
    hearing, _ = _profile(graphs[content_encoder.ROLE].content, {"wave": inputs["wave"]}, rounds)
    heard = {name: value for name, value in inputs.items() if name != "wave"}
    speaking, optimised = _profile(graphs[ROLE].content, heard, rounds)
    network = find_network(optimised)
    in_network = sum(least for name, least in speaking.items() if name in network)
    return {
        "hearing": sum(hearing.values()),
        "network": in_network,
        "synthesis": sum(speaking.values()) - in_network,
    }


def _profile(
    graph: bytes, inputs: GraphInputs, rounds: int
) -> tuple[dict[str, float], onnx.GraphProto]:
    """Return the least milliseconds of each operator, and the graph as it is run."""
    options = onnxruntime.SessionOptions()
    # As the converter runs it (shared.speech.graphs.sessions).
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_reuse = False
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as folder:
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        optimised = Path(folder) / "optimised.onnx"
        options.optimized_model_filepath = str(optimised)
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        for _ in range(rounds):
            session.run(None, inputs)
        events = json.loads(Path(session.end_profiling()).read_text())
        return _kernel_milliseconds(events), onnx.load(optimised).graph


def _kernel_milliseconds(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    durations: defaultdict[str, list[float]] = defaultdict(list)
    for event in events:
        name = str(event["name"])
        if event.get("cat") == "Node" and name.endswith(_KERNEL):
            durations[name.removesuffix(_KERNEL)].append(event["dur"] / 1000)
    return {name: min(values) for name, values in durations.items()}


def find_network(graph: onnx.GraphProto) -> set[str]:
    """Name the nodes of the graph `harmonic` that are its convolutions, or lead to them."""
    makers = {output: node.name for node in graph.node for output in node.output}
    before = {
        node.name: {makers[name] for name in node.input if name in makers} for node in graph.node
    }
    channels = {weight.name: weight.dims[0] for weight in graph.initializer if weight.dims}
    waiting = [
        node.name
        for node in graph.node
        if node.op_type in {"Conv", "ConvInteger", "FusedConv"}
        and channels.get(node.input[1], 2) > 1
    ]
    found = set(waiting)
    while waiting:
        new = before[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def graph_inputs(manifest: CharacterManifest, size: int, seconds: float) -> GraphInputs:
    """Return what the engine gives both graphs for so much speech; the content is random."""
    if manifest.pitch is None:
        raise ValueError(f"{manifest.id} has no pitch: this is about the harmonic engine")
    analysis = analyse(speech(seconds), SAMPLE_RATE, NoClock())
    pitch = plan_pitch(analysis.track, manifest.pitch, None)
    hop = manifest.sample_rate // 100
    noise = np.random.default_rng(0).standard_normal((len(pitch) + 1) * hop, np.float32)
    frames = len(pitch) - len(pitch) % 2
    return {
        "wave": analysis.wave[None, : frames * HOP],
        "content": np.random.default_rng(1).standard_normal((1, len(pitch), size), np.float32),
        "f0": pitch[None],
        "voicing": analysis.track.voicing[None],
        "noise": noise[None],
    }
