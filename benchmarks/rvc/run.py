"""What an RVC voice of full size costs on a processor, and which choices reduce it.

The voice has random weights, so its output is noise and its quality is not measured.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np
from onnxruntime.quantization import QuantType, quantize_dynamic

from benchmarks.measuring.recordings import SAMPLE_RATE, speech
from benchmarks.measuring.report import Report, Table
from benchmarks.rvc import graphs, pytorch
from shared.characters.manifest import CharacterManifest, read_manifest
from speech.bundles.bundle import Graph
from speech.bundles.onnx_model import inspect_model
from speech.engines.interface.engine import ConversionOptions
from speech.engines.rvc.engine import RvcEngine
from speech.engines.rvc.features import frame_count
from speech.engines.rvc.networks import OnnxContentEncoder, OnnxSynthesizer
from speech.engines.rvc.pitch.tracks import contour
from speech.engines.rvc.voice import RvcVoice, VoiceOptions, draw_noise
from speech.networks.session import GraphSession
from speech.networks.settings import SessionSettings
from speech.signal.samples import resample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.measuring.report import Cell, Options
    from speech.signal.arrays import Samples

MANIFEST: Final = Path(__file__).parents[2] / "tests" / "data" / "bundles" / "mei"
"""Any manifest will do: what an RVC voice needs otherwise is put into it."""

SECONDS: Final = 5.0
_NETWORK_RATE: Final = 16_000
_HERTZ: Final = 150.0
_ORIGINAL_PADDING_SECONDS: Final = 1.0
_AS_CONVERTED: Final = "as the engine does"
_WITH_INT8: Final = "int8 weights of the encoder"
_IN_PYTORCH: Final = "PyTorch, padded by 1 s: encoder and decoder alone"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        seconds: of speech that the networks get.
        rounds: runs of each choice, alternately.
        threads: that a network is run with, one number after the other.
    """

    seconds: float
    rounds: int
    threads: tuple[int, ...]


FULL: Final = Extent(SECONDS, rounds=3, threads=(1, 2))
QUICK: Final = Extent(1.0, rounds=1, threads=(1,))


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by the clock and of the processor, per second of the recording."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Files:
    """The files of the networks, by how they are made."""

    encoder: bytes
    small_encoder: bytes
    plain_synthesizer: bytes
    synthesizer: bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """The same, ready to run on some threads."""

    encoder: OnnxContentEncoder
    small_encoder: OnnxContentEncoder
    plain_synthesizer: OnnxSynthesizer
    synthesizer: OnnxSynthesizer


def run(options: Options) -> Report:
    """Measure the networks one by one, and whole conversions."""
    plan = QUICK if options.quick else FULL
    files = _make_files()
    loaded = {threads: _load(files, threads) for threads in plan.threads}
    by_network = _measure(_network_runs(loaded, plan), plan)
    conversions = _measure(_conversions(loaded, plan), plan)
    ours = by_network["synthesizer, 4-D convolutions", 1]
    plain = by_network["synthesizer, plain convolutions", 1]
    encoder = by_network["content encoder, float32", 1]
    return Report(
        "rvc",
        (
            _table(f"the networks, for {plan.seconds:g} s of speech", by_network),
            _table(f"a whole conversion of {plan.seconds:g} s of speech", conversions),
        ),
        facts={
            "content encoder, MB": len(files.encoder) / 1e6,
            "content encoder with int8 weights, MB": len(files.small_encoder) / 1e6,
            "synthesizer, MB": len(files.synthesizer) / 1e6,
            **_beside_pytorch(conversions),
            "runs that each figure is the median of": plan.rounds,
            "load average of the machine meanwhile": os.getloadavg()[1],
        },
        ratios={
            "synthesizer, 4-D / plain convolutions": ours.cpu / plain.cpu,
            "content encoder / synthesizer": encoder.cpu / ours.cpu,
        },
    )


def _beside_pytorch(conversions: Costs) -> dict[str, Cell]:
    if (_IN_PYTORCH, 1) not in conversions:
        return {"PyTorch was installed": False}
    theirs = conversions[_IN_PYTORCH, 1].cpu
    return {
        f"CPU time of a conversion, {name} / PyTorch": conversions[name, 1].cpu / theirs
        for name in (_AS_CONVERTED, _WITH_INT8)
    }


def _make_files() -> Files:
    encoder = graphs.content_encoder()
    return Files(encoder, _with_int8_weights(encoder), graphs.synthesizer(3), graphs.synthesizer(4))


def _with_int8_weights(encoder: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        plain, small = Path(name) / "plain.onnx", Path(name) / "small.onnx"
        plain.write_bytes(encoder)
        quantize_dynamic(
            plain,
            small,
            per_channel=True,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul"],
        )
        return small.read_bytes()


Runs = dict[tuple[str, int], "Callable[[], object]"]
Costs = dict[tuple[str, int], Cost]


def _network_runs(loaded: Mapping[int, Loaded], plan: Extent) -> Runs:
    wave = resample(speech(plan.seconds), SAMPLE_RATE, _NETWORK_RATE)
    frames = frame_count(len(wave))
    runs: Runs = {}
    for threads, networks in loaded.items():
        choices: dict[str, Callable[[], object]] = {
            "content encoder, float32": partial(networks.encoder.encode, wave),
            "content encoder, int8 weights": partial(networks.small_encoder.encode, wave),
            "synthesizer, plain convolutions": _speaking(networks.plain_synthesizer, frames),
            "synthesizer, 4-D convolutions": _speaking(networks.synthesizer, frames),
        }
        if pytorch.is_installed():
            choices["content encoder, PyTorch"] = pytorch.content_encoder(len(wave), threads)
            choices["decoder alone, PyTorch"] = pytorch.decoder(frames, threads)
        runs |= {(name, threads): choice for name, choice in choices.items()}
    return runs


def _speaking(synthesizer: OnnxSynthesizer, frames: int) -> Callable[[], object]:
    random = np.random.default_rng(0)
    features = random.standard_normal((frames, graphs.CONTENT_CHANNELS), np.float32)
    told = contour(np.full(frames, _HERTZ, np.float32))
    noise = draw_noise(random, frames, synthesizer)
    return lambda: synthesizer.speak(features, told, 0, noise)


def _load(files: Files, threads: int) -> Loaded:
    return Loaded(
        _encoder(files.encoder, threads),
        _encoder(files.small_encoder, threads),
        _synthesizer(files.plain_synthesizer, threads),
        _synthesizer(files.synthesizer, threads),
    )


def _graph(name: str, content: bytes) -> Graph:
    return Graph(f"{name}.onnx", content, inspect_model(content))


def _encoder(content: bytes, threads: int) -> OnnxContentEncoder:
    graph = _graph("content", content)
    session = GraphSession(graph, SessionSettings(threads=threads))
    return OnnxContentEncoder(graph, session, graphs.CONTENT_CHANNELS, None)


def _synthesizer(content: bytes, threads: int) -> OnnxSynthesizer:
    graph = _graph("synthesizer", content)
    session = GraphSession(graph, SessionSettings(threads=threads))
    return OnnxSynthesizer(graph, session, graphs.SAMPLE_RATE)


def _conversions(loaded: Mapping[int, Loaded], plan: Extent) -> Runs:
    """Return whole conversions, one choice after the other."""
    recording = speech(plan.seconds)
    runs: Runs = {}
    for threads, networks in loaded.items():
        ours, plain = networks.synthesizer, networks.plain_synthesizer
        engines = {
            _AS_CONVERTED: _engine(networks.encoder, ours),
            "plain convolutions": _engine(networks.encoder, plain),
            _WITH_INT8: _engine(networks.small_encoder, ours),
        }
        for name, engine in engines.items():
            runs[name, threads] = partial(_convert, engine, recording)
        if pytorch.is_installed():
            runs[_IN_PYTORCH, threads] = _networks_in_pytorch(plan.seconds, threads)
    alone = _engine(loaded[1].encoder, loaded[1].synthesizer)
    halves = np.array_split(recording, 2)
    runs["two halves side by side, a thread each", 2] = partial(_convert_together, alone, halves)
    return runs


def _networks_in_pytorch(seconds: float, threads: int) -> Callable[[], object]:
    """Compute the least time of a conversion in PyTorch: its networks, over the padding, too."""
    samples = round((seconds + 2 * _ORIGINAL_PADDING_SECONDS) * _NETWORK_RATE)
    encode = pytorch.content_encoder(samples, threads)
    decode = pytorch.decoder(frame_count(samples), threads)
    return lambda: (encode(), decode())


def _engine(encoder: OnnxContentEncoder, synthesizer: OnnxSynthesizer) -> RvcEngine:
    voice = RvcVoice(encoder, synthesizer, None, VoiceOptions())
    return RvcEngine(_manifest(), voice)


def _manifest() -> CharacterManifest:
    changes = {"engine": "rvc", "sample_rate": graphs.SAMPLE_RATE, "pitch": None}
    return read_manifest(MANIFEST).model_copy(update=changes)


def _convert(engine: RvcEngine, recording: Samples) -> object:
    return engine.convert(recording, SAMPLE_RATE, ConversionOptions())


def _convert_together(engine: RvcEngine, parts: Sequence[Samples]) -> object:
    with ThreadPoolExecutor(len(parts)) as threads:
        return list(threads.map(partial(_convert, engine), parts))


def _measure(runs: Runs, plan: Extent) -> Costs:
    """Run all choices alternately; each cost is the median, without the first round."""
    seen: dict[tuple[str, int], list[Cost]] = {key: [] for key in runs}
    for _ in range(plan.rounds + 1):
        for key, run_once in runs.items():
            cpu, wall = time.process_time(), time.perf_counter()
            run_once()
            elapsed = time.perf_counter() - wall
            used = time.process_time() - cpu
            seen[key].append(Cost(elapsed / plan.seconds, used / plan.seconds))
    return {
        key: Cost(median(cost.wall for cost in costs[1:]), median(cost.cpu for cost in costs[1:]))
        for key, costs in seen.items()
    }


def _table(title: str, costs: Mapping[tuple[str, int], Cost]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(name for name, _ in costs):
        one, two = (costs.get((name, threads)) for threads in (1, 2))
        rows.append((name, *_cells(one), *_cells(two)))
    columns = ("1 thread, CPU s", "1 thread, wall s", "2 threads, CPU s", "2 threads, wall s")
    return Table(f"{title}; per second of it", ("what", *columns), tuple(rows))


def _cells(cost: Cost | None) -> tuple[Cell, Cell]:
    return (None, None) if cost is None else (cost.cpu, cost.wall)
