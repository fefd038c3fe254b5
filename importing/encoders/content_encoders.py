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
from onnx import helper

from importing.encoders.encoder_store import FEATURE_SIZES, FeatureOutput
from importing.files.errors import VoiceFileError
from importing.rvc.exports.trial import open_session, reason
from importing.trial.trial import speech_like
from shared.process.quoting import quoted
from speech.bundles.onnx_model import ModelFacts, UnsafeModelError, inspect_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

SAMPLE_RATE = 16_000
MAX_ENCODER_BYTES = (1 << 31) - 1
_RECEPTIVE_FIELD, _STRIDE = 400, 320
_TRIAL_SAMPLES = (16_000, 24_321)
_RANKS = (2, 3)
_BATCH_TIME_CHANNELS = 3
_SECONDS = 3.0


@dataclass(frozen=True)
class ContentEncoder:
    """What an encoder takes and gives.

    Attributes:
        content: the ONNX file.
        input: its one input.
        rank: of the input: [1, N] or [1, 1, N].
        outputs: those with features that RVC voices take.
        real_time_factor: seconds of work per second of audio, with one thread.
    """

    content: bytes = field(repr=False)
    input: str
    rank: int
    outputs: Sequence[FeatureOutput]
    real_time_factor: float

    def output_for(self, width: int) -> FeatureOutput:
        """Return the output whose features a voice takes.

        Raises:
            VoiceFileError: there is none.
        """
        for output in self.outputs:
            if output.width == width:
                return output
        found = ", ".join(f"{quoted(output.name)} with {output.width}" for output in self.outputs)
        raise VoiceFileError(
            f"expected an encoder that gives {width} features as the voice takes them, found"
            f" {found}."
        )


@dataclass(frozen=True)
class Quantisation:
    """What became of an encoder whose weights are whole numbers of 8 bits.

    Attributes:
        encoder: the smaller one.
        distance: root mean square of the difference, as a share of the features' own.
        least_cosine: between the features of a frame before and after, in the worst frame.
    """

    encoder: ContentEncoder
    distance: float
    least_cosine: float


def inspect_encoder(content: bytes) -> ContentEncoder:
    """Find out what an encoder takes and gives.

    Args:
        content: the whole ONNX file.

    Raises:
        VoiceFileError: it is no content encoder for RVC voices; in one sentence, why.
    """
    if len(content) > MAX_ENCODER_BYTES:
        raise VoiceFileError(f"expected at most {MAX_ENCODER_BYTES} bytes, found {len(content)}.")
    try:
        facts = inspect_model(content)
    except UnsafeModelError as error:
        raise VoiceFileError(str(error)) from error
    name, rank = _audio_input(facts)
    session = open_session(content)
    trials = [_run(session, name, rank, _wave(samples)) for samples in _TRIAL_SAMPLES]
    outputs = [
        output
        for each in trials[0]
        if (output := _as_features(each, [trial[each] for trial in trials])) is not None
    ]
    if not outputs:
        shapes = ", ".join(
            f"{quoted(each)} {list(value.shape)}" for each, value in trials[0].items()
        )
        raise VoiceFileError(
            f"expected features float32 [1, {frame_count(_TRIAL_SAMPLES[0])}, 256 or 768] for a"
            f" second of audio at 16 kHz, found {shapes}."
        )
    return ContentEncoder(content, name, rank, outputs, _real_time_factor(content, name, rank))


def frame_count(samples: int) -> int:
    """Count the frames of 20 ms that an encoder makes of samples at 16 kHz."""
    return (samples - _RECEPTIVE_FIELD) // _STRIDE + 1


def quantise(encoder: ContentEncoder) -> Quantisation:
    """Store the weights of an encoder's matrix products in 8 bits, and measure what that changes.

    Raises:
        VoiceFileError: it has no such weights, or does not run afterwards.
    """
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


def _audio_input(facts: ModelFacts) -> tuple[str, int]:
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


def _as_features(name: str, trials: Sequence[NDArray[Any]]) -> FeatureOutput | None:
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
