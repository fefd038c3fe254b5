"""Content encoders: what an ONNX file of ContentVec or HuBERT gives, found out by running it."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, StringStringEntryProto, helper

from shared.characters.bundle_files import BundleError
from shared.runtime.process import read_at_most
from shared.runtime.quoting import printable, quoted
from shared.speech.engines.rvc_pitch import OnnxPitchModel, PitchModelContract
from shared.speech.engines.style_bert_graphs import (
    BERT_CONTRACT,
    FEATURES,
    MAX_VOCABULARY_BYTES,
    VOCABULARY,
    BertEncoder,
    Vocabulary,
    VocabularyError,
    read_vocabulary,
)
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.onnx_files import ModelFacts, UnsafeModelError, inspect_model
from shared.speech.graphs.sessions import GraphSession, SessionSettings
from tools.bundles.encoder_store import FEATURE_SIZES, FeatureOutput
from tools.bundles.files import VoiceFileError
from tools.bundles.trial import speech_like
from tools.importing.synthesizer_trial import open_session, reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from shared.speech.signal.sound import Samples


SAMPLE_RATE = 16_000
MAX_ENCODER_BYTES = (1 << 31) - 1
_RECEPTIVE_FIELD, _STRIDE = 400, 320
_TRIAL_SAMPLES = (16_000, 24_321)
_RANKS = (2, 3)
_BATCH_TIME_CHANNELS = 3
_SECONDS = 3.0


@dataclass(frozen=True)
class InspectedEncoder:
    """Inputs and outputs of an encoder.

    Attributes:
        rank: of the input: [1, N] or [1, 1, N].
        real_time_factor: seconds of work per second of audio, with one thread.
    """

    content: bytes = field(repr=False)
    input: str
    rank: int
    outputs: Sequence[FeatureOutput]
    real_time_factor: float


@dataclass(frozen=True)
class Quantisation:
    """The outcome of storing an encoder's weights in 8 bits.

    Attributes:
        distance: root mean square of the difference, as a share of the features' own.
        least_cosine: between the features of a frame before and after, in the worst frame.
    """

    encoder: InspectedEncoder
    distance: float
    least_cosine: float


def inspect_encoder(content: bytes) -> InspectedEncoder:
    """Find out what an encoder takes and gives."""
    if len(content) > MAX_ENCODER_BYTES:
        raise VoiceFileError(f"expected at most {MAX_ENCODER_BYTES} bytes, found {len(content)}.")
    try:
        facts = inspect_model(content)
    except UnsafeModelError as error:
        raise VoiceFileError(str(error)) from error
    name, rank = audio_input(facts)
    session = open_session(content)
    trials = [_run(session, name, rank, _wave(samples)) for samples in _TRIAL_SAMPLES]
    outputs = [
        output
        for each in trials[0]
        if (output := as_features(each, [trial[each] for trial in trials])) is not None
    ]
    if not outputs:
        shapes = ", ".join(
            f"{quoted(each)} {list(value.shape)}" for each, value in trials[0].items()
        )
        raise VoiceFileError(
            f"expected features float32 [1, {frame_count(_TRIAL_SAMPLES[0])}, 256 or 768] for a"
            f" second of audio at 16 kHz, found {shapes}."
        )
    return InspectedEncoder(content, name, rank, outputs, _real_time_factor(content, name, rank))


def frame_count(samples: int) -> int:
    """Count the frames of 20 ms that an encoder makes of samples at 16 kHz."""
    return (samples - _RECEPTIVE_FIELD) // _STRIDE + 1


def quantise(encoder: InspectedEncoder) -> Quantisation:
    """Store the weights of the matrix products in 8 bits, and measure what that changes."""
    smaller = inspect_encoder(_quantised(encoder.content))
    wave = speech_like(_SECONDS, SAMPLE_RATE)
    output = encoder.outputs[0]
    before, after = (
        _frames(output, _run(open_session(each.content), each.input, each.rank, wave))
        for each in (encoder, smaller)
    )
    distance = np.linalg.norm(after - before) / np.linalg.norm(before)
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    heard = lengths > 0
    cosines = np.sum(before * after, axis=1)[heard] / lengths[heard]
    return Quantisation(smaller, float(distance), float(cosines.min(initial=1.0)))


def audio_input(facts: ModelFacts) -> tuple[str, int]:
    inputs = list(facts.inputs.values())
    fits = len(inputs) == 1 and inputs[0].element_type == "float32"
    shape = inputs[0].shape if inputs else None
    if not fits or (shape is not None and len(shape) not in _RANKS):
        found = ", ".join(f"{quoted(each.name)} {each}" for each in inputs) or "none"
        raise VoiceFileError(
            "expected an encoder with one input, float32 [1, samples] or [1, 1, samples], found the"
            f" inputs {found}."
        )
    return inputs[0].name, len(shape) if shape is not None else _RANKS[0]


def _wave(samples: int) -> NDArray[np.float32]:
    return speech_like(samples / SAMPLE_RATE, SAMPLE_RATE)[:samples]


def _run(session: Any, name: str, rank: int, wave: NDArray[np.float32]) -> dict[str, Any]:
    names = [each.name for each in session.get_outputs()]
    try:
        values = session.run(names, {name: wave.reshape((1,) * (rank - 1) + (-1,))})
    except Exception as error:  # its exceptions share no narrower base
        raise VoiceFileError(
            f"expected an encoder that takes any length, found: {reason(error)}."
        ) from error
    return dict(zip(names, map(np.asarray, values), strict=True))


def as_features(name: str, trials: Sequence[NDArray[Any]]) -> FeatureOutput | None:
    """Tell whether an output has features, and along which axis, by trials of two lengths."""
    shapes = [trial.shape for trial in trials]
    if any(len(shape) != _BATCH_TIME_CHANNELS or shape[0] != 1 for shape in shapes):
        return None
    frames = [frame_count(samples) for samples in _TRIAL_SAMPLES]
    is_finite = all(trial.dtype == np.float32 and np.isfinite(trial).all() for trial in trials)
    for time_axis, channel_axis in ((1, 2), (2, 1)):
        width = shapes[0][channel_axis]
        has_time = [shape[time_axis] for shape in shapes] == frames
        if has_time and is_finite and width in FEATURE_SIZES.values():
            return FeatureOutput(name, width, channels_first=channel_axis == 1)
    return None


def _frames(output: FeatureOutput, values: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    features: NDArray[np.float32] = values[output.name][0]
    return features.T if output.channels_first else features


def _real_time_factor(content: bytes, name: str, rank: int) -> float:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    wave = speech_like(_SECONDS, SAMPLE_RATE)
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        _run(session, name, rank, wave)
        times.append(time.perf_counter() - begin)
    return min(times) / _SECONDS


def _quantised(content: bytes) -> bytes:
    # Only this command needs it, and it takes long to load.
    from onnxruntime import quantization  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        folded, smaller = Path(folder) / "folded.onnx", Path(folder) / "smaller.onnx"
        # Weights that are computed from constants are not seen as weights.
        options = onnxruntime.SessionOptions()
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(folded)
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        prepared = onnx.load(folded)
        # Says that constants are folded already, so that no advice to do so is written.
        helper.set_model_props(prepared, {"onnx.quant.pre_process": "onnxruntime.quant"})
        quantization.quantize_dynamic(
            prepared,
            smaller,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=quantization.QuantType.QInt8,
        )
        model = onnx.load(smaller)
    if not any(node.op_type == "MatMulInteger" for node in model.graph.node):
        raise VoiceFileError("expected matrix products with constant weights, found none.")
    standard = [each for each in model.opset_import if each.domain in {"", "ai.onnx"}]
    del model.opset_import[:]
    model.opset_import.extend(standard)
    quantised: bytes = model.SerializeToString()
    return quantised


_TEXT = "今日はとてもいい天気ですね。"
OUTPUTS: Sequence[FeatureOutput] = (FeatureOutput("output", FEATURES, channels_first=False),)
"""The encoder's output that voices ask for."""


@dataclass(frozen=True)
class BertReport:
    """Time and memory that a BERT needs.

    Attributes:
        milliseconds: for a text of 14 characters, with one thread.
    """

    content: bytes
    tokens: int
    milliseconds: float


def is_bert(content: bytes) -> bool:
    """Return whether an ONNX file takes the tokens of a text."""
    try:
        return "input_ids" in inspect_model(content).inputs
    except UnsafeModelError:
        return False


def read_tokens(path: Path) -> str:
    """Read a `vocab.txt`: one token in each line."""
    try:
        Vocabulary.read(path)
        return read_at_most(path, MAX_VOCABULARY_BYTES).decode("utf-8").removesuffix("\n")
    except (OSError, VocabularyError) as error:
        raise VoiceFileError(f"{printable(path.name)}: {error}") from error


def inspect_bert(given: tuple[bytes, str | None]) -> BertReport:
    """Try a BERT on a text.

    Args:
        given: the ONNX file, and its vocabulary with one token in each line, or None if the file
            carries it already.
    """
    content, tokens = given
    if tokens is not None:
        content += as_metadata(tokens)
    try:
        graph = Graph("encoder", content, inspect_model(content))
        BERT_CONTRACT.check(graph)
        session = GraphSession(graph, SessionSettings())
        if VOCABULARY not in session.metadata:
            raise VoiceFileError(
                "expected the vocabulary of this BERT; give its vocab.txt with --vocabulary."
            )
        encoder = BertEncoder(session, read_vocabulary(session.metadata))
        encoder.try_out(graph)
    except (BundleError, UnsafeModelError, VocabularyError) as error:
        raise VoiceFileError(str(error)) from error
    begin = time.perf_counter()
    encoder.encode(_TEXT)
    milliseconds = (time.perf_counter() - begin) * 1000
    return BertReport(content, session.metadata[VOCABULARY].count("\n") + 1, milliseconds)


def as_metadata(tokens: str) -> bytes:
    """Build the bytes that add a vocabulary to a model's file when they are appended.

    A message of protocol buffers may be followed by more of its repeated fields
    (https://protobuf.dev/programming-guides/encoding/#last-one-wins), so that a model of more than
    a gigabyte need not be taken apart.
    """
    entry = StringStringEntryProto(key=VOCABULARY, value=tokens)
    return bytes(ModelProto(metadata_props=[entry]).SerializeToString())


TONE_HZ = 220.0
_HARMONICS = 12
_FILE = "model"


@dataclass(frozen=True)
class InspectedPitchModel:
    """The pitch that a model finds.

    Attributes:
        tone_hz: what it makes of a tone of 220 Hz with overtones, the median of its frames.
        hears_voicing: whether it tells voiced frames from unvoiced ones.
        real_time_factor: seconds of work per second of audio, with one thread.
    """

    content: bytes = field(repr=False)
    tone_hz: float
    hears_voicing: bool
    real_time_factor: float


def is_pitch_model(content: bytes) -> bool:
    try:
        PitchModelContract().check(_graph(content))
    except (BundleError, UnsafeModelError):
        return False
    return True


def inspect_pitch_model(content: bytes) -> InspectedPitchModel:
    try:
        graph = _graph(content)
        PitchModelContract().check(graph)
        model = OnnxPitchModel(graph, GraphSession(graph, SessionSettings(threads=1)))
    except (BundleError, UnsafeModelError) as error:
        raise VoiceFileError(str(error).removeprefix(f"{_FILE}: ")) from error
    tone = _tone()
    begin = time.perf_counter()
    hertz = model.track(tone)
    elapsed = time.perf_counter() - begin
    return InspectedPitchModel(
        content, float(np.median(hertz)), model.hears_voicing, elapsed / _SECONDS
    )


def _graph(content: bytes) -> Graph:
    return Graph(_FILE, content, inspect_model(content))


def _tone() -> Samples:
    at = np.arange(round(_SECONDS * SAMPLE_RATE)) / SAMPLE_RATE
    overtones = (np.sin(2 * np.pi * TONE_HZ * n * at) / n for n in range(1, _HARMONICS + 1))
    tone: Samples = (0.2 * np.sum(list(overtones), axis=0)).astype(np.float32)
    return tone
