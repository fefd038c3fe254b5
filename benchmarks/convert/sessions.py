"""ONNX Runtime sessions with every choice there is, side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np
import onnxruntime

from benchmarks.measuring.recordings import SAMPLE_RATE, speech
from speech.signal.clock import NoClock
from speech.signal.pitch.f0 import HOP
from speech.signal.pitch.shifting import plan_pitch
from speech.signal.whole.analysis import analyse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from shared.characters.manifest import CharacterManifest

Inputs = dict[str, "npt.NDArray[np.float32]"]

LEVELS: Final[Mapping[str, onnxruntime.GraphOptimizationLevel]] = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """How a graph is loaded and run; the defaults are what the converter does.

    Attributes:
        name: for the table.
        level: how much the runtime optimises the graph.
        threads: for one run.
        spinning: whether idle threads wait in a loop.
        memory_pattern: whether the runtime plans its memory by the shapes of the last run.
        memory_reuse: whether it plans which operator's output takes whose memory.
        arena: whether it keeps the memory that it has used.
        prepacking: whether it lays weights out anew for its kernels.
    """

    name: str
    level: str = "none"
    threads: int = 1
    spinning: bool = False
    memory_pattern: bool = True
    memory_reuse: bool = False
    arena: bool = True
    prepacking: bool = True

    def options(self) -> onnxruntime.SessionOptions:
        """Return them as the runtime takes them."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = LEVELS[self.level]
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = self.memory_pattern
        options.enable_mem_reuse = self.memory_reuse
        options.enable_cpu_mem_arena = self.arena
        options.log_severity_level = 4
        entries = {
            "session.intra_op.allow_spinning": "1" if self.spinning else "0",
            "session.disable_prepacking": "0" if self.prepacking else "1",
        }
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        return options

    def open(self, content: bytes) -> onnxruntime.InferenceSession:
        """Load a graph."""
        return onnxruntime.InferenceSession(
            content, self.options(), providers=["CPUExecutionProvider"]
        )


CHOICES: Final = (
    Choice("as the converter does"),
    Choice("basic optimisation", level="basic"),
    Choice("extended optimisation", level="extended"),
    Choice("all optimisation", level="all"),
    Choice("weights not laid out anew", prepacking=False),
    Choice("no memory pattern", memory_pattern=False),
    Choice("reuse of memory planned", memory_reuse=True),
    Choice("no arena", arena=False),
    Choice("two threads", threads=2),
    Choice("two threads, spinning", threads=2, spinning=True),
)


@dataclass(frozen=True, slots=True)
class Run:
    """Milliseconds of one run: by the clock, and of the processor."""

    wall: float
    cpu: float


def time_runs(
    sessions: Sequence[onnxruntime.InferenceSession], inputs: Inputs, rounds: int
) -> list[Run]:
    """Run sessions alternately and return the median of each, without the first round."""
    runs: list[list[Run]] = [[] for _ in sessions]
    for _ in range(rounds + 1):
        for session, mine in zip(sessions, runs, strict=True):
            cpu, wall = time.process_time(), time.perf_counter()
            session.run(None, inputs)
            elapsed = time.perf_counter() - wall
            mine.append(Run(1000 * elapsed, 1000 * (time.process_time() - cpu)))
    return [
        Run(median(one.wall for one in mine[1:]), median(one.cpu for one in mine[1:]))
        for mine in runs
    ]


def graph_inputs(manifest: CharacterManifest, seconds: float) -> Inputs:
    """Return what the engine gives a harmonic graph for so much speech."""
    if manifest.pitch is None:
        raise ValueError(f"{manifest.id} has no pitch: this is about the harmonic engine")
    analysis = analyse(speech(seconds), SAMPLE_RATE, NoClock())
    pitch = plan_pitch(analysis.track, manifest.pitch, None)
    hop = manifest.sample_rate // 100
    noise = np.random.default_rng(0).standard_normal((len(pitch) + 1) * hop, np.float32)
    return {
        "wave": analysis.wave[None, : len(pitch) * HOP],
        "f0": pitch[None],
        "voicing": analysis.track.voicing[None],
        "noise": noise[None],
    }


def silence(frames: int = 9, hop: int = 240) -> Inputs:
    """Return inputs for a short trial at 24 kHz."""
    return {
        "wave": np.zeros((1, frames * HOP), np.float32),
        "f0": np.full((1, frames), 300.0, np.float32),
        "voicing": np.ones((1, frames), np.float32),
        "noise": np.zeros((1, (frames + 1) * hop), np.float32),
    }
