"""The graphs of a harmonic character taken apart: how their time divides.

Hearing is all of the graph `content`. Nothing is known of the graph `harmonic` but its operators:
its network is its convolutions, those with one channel apart, which are filters, and everything
that leads to them; the rest is synthesis.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
import onnxruntime

from benchmarks.measuring.recordings import SAMPLE_RATE, speech
from speech.engines.harmonic import content
from speech.engines.harmonic.engine import ROLE
from speech.signal.clock import NoClock
from speech.signal.pitch.f0 import HOP
from speech.signal.pitch.shifting import plan_pitch
from speech.signal.whole.analysis import analyse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from shared.characters.manifest import CharacterManifest
    from speech.bundles.bundle import Graph

Inputs = dict[str, "npt.NDArray[np.float32]"]

PARTS: Final = ("hearing", "network", "synthesis")
_KERNEL: Final = "_kernel_time"


def measure_parts(graphs: Mapping[str, Graph], inputs: Inputs, rounds: int) -> dict[str, float]:
    """Return the milliseconds that one run spends in each part, by the runtime's own profiler.

    Args:
        graphs: of the roles `content` and `harmonic`.
        inputs: what they are run on, in place of the content that is heard.
        rounds: how often; the least time of each operator counts.
    """
    hearing, _ = _profile(graphs[content.ROLE].content, {"wave": inputs["wave"]}, rounds)
    heard = {name: value for name, value in inputs.items() if name != "wave"}
    speaking, optimised = _profile(graphs[ROLE].content, heard, rounds)
    network = find_network(optimised)
    in_network = sum(least for name, least in speaking.items() if name in network)
    return {
        "hearing": sum(hearing.values()),
        "network": in_network,
        "synthesis": sum(speaking.values()) - in_network,
    }


def _profile(graph: bytes, inputs: Inputs, rounds: int) -> tuple[dict[str, float], onnx.GraphProto]:
    """Return the least milliseconds of each operator, and the graph as it is run."""
    options = onnxruntime.SessionOptions()
    # As the converter runs it (speech.networks.session).
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


def graph_inputs(manifest: CharacterManifest, size: int, seconds: float) -> Inputs:
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
