"""RVC voices for tests: networks written in Python, small real graphs, and their bundles."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from shared.speech.engines.rvc_signal import feature_count
from tests.unit.graphs import small_graphs
from tests.unit.graphs.bundles import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from shared.speech.engines.rvc_networks import SynthesizerNoise
    from shared.speech.engines.rvc_signal import Contour

    Array = NDArray[np.float32]

CHANNELS = 6
RATE = 32_000
HOP = RATE // 100


@dataclass
class SineVoice:
    """An encoder and a synthesizer in one: it speaks a sine as high as it is told.

    It notes what it is given.
    """

    sample_rate: int = RATE
    harmonics: int = 1
    loudness: float = 0.2
    waves: list[Array] = field(default_factory=list)
    contours: list[Contour | None] = field(default_factory=list)
    noises: list[SynthesizerNoise] = field(default_factory=list)

    def encode(self, wave: Array) -> Array:
        self.waves.append(wave)
        return np.zeros((feature_count(len(wave)), CHANNELS), np.float32)

    def speak(
        self, features: Array, contour: Contour | None, speaker: int, noise: SynthesizerNoise
    ) -> Array:
        del speaker
        self.contours.append(contour)
        self.noises.append(noise)
        hop = self.sample_rate // 100
        hertz = np.full(len(features), 200.0) if contour is None else contour.hertz
        assert len(hertz) == len(features)
        phase = 2 * np.pi * np.cumsum(np.repeat(hertz, hop)) / self.sample_rate
        sine: Array = (self.loudness * np.sin(phase)).astype(np.float32)
        return sine


def constant(name: str, value: NDArray[Any]) -> Any:
    return numpy_helper.from_array(value, name)


def content_graph(
    channels: int = CHANNELS, *, rank: int = 3, is_transposed: bool = False, outputs: int = 1
) -> bytes:
    """Make a content encoder: one convolution with the hearing and the stride of a real one.

    Args:
        is_transposed: whether it gives [1, C, T].
        outputs: how many there are: `features0`, `features1`, ...
    """
    random = np.random.default_rng(1)
    nodes, weights, described = [], [constant("shape", np.array([1, 1, -1]))], []
    nodes.append(helper.make_node("Reshape", ["source", "shape"], ["wave"]))
    for index in range(outputs):
        width = channels * 2**index
        kernel = random.standard_normal((width, 1, 400)).astype(np.float32) / 20
        weights.append(constant(f"kernel{index}", kernel))
        convolved = f"features{index}" if is_transposed else f"convolved{index}"
        nodes.append(
            helper.make_node("Conv", ["wave", f"kernel{index}"], [convolved], strides=[320])
        )
        if not is_transposed:
            nodes.append(
                helper.make_node("Transpose", [convolved], [f"features{index}"], perm=[0, 2, 1])
            )
        shape = [1, width, "frames"] if is_transposed else [1, "frames", width]
        described.append(small_graphs.tensor(f"features{index}", shape))
    source = small_graphs.tensor("source", [1] * (rank - 1) + ["samples"])
    return small_graphs.content(helper.make_graph(nodes, "content", [source], described, weights))


def synthesizer_graph(
    channels: int = CHANNELS, *, takes_pitch: bool = True, hop: int = HOP, harmonics: int = 1
) -> bytes:
    """Make a synthesizer that adds up everything it is given, at a hundredth, plus noise."""
    weights = [
        constant("hundredth", np.array(0.002, np.float32)),
        constant("ones", np.ones((1, hop, 1), np.float32)),
        constant("shape", np.array([1, 1, -1])),
        constant("channel", np.array([2])),
        constant("latent", np.array([1])),
    ]
    nodes = [
        helper.make_node("ReduceMean", ["phone", "channel"], ["heard"], keepdims=1),
        helper.make_node("ReduceMean", ["rnd", "latent"], ["prior"], keepdims=1),
        helper.make_node("Transpose", ["prior"], ["column"], perm=[0, 2, 1]),
        helper.make_node("Add", ["heard", "column"], ["frames"]),
    ]
    said = "frames"
    if takes_pitch:
        nodes += [
            helper.make_node("Cast", ["pitch"], ["coarse"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["coarse", "pitchf"], ["tones"]),
            helper.make_node("Reshape", ["tones", "column_shape"], ["tone"]),
            helper.make_node("Add", ["frames", "tone"], ["pitched"]),
        ]
        weights.append(constant("column_shape", np.array([1, -1, 1])))
        said = "pitched"
    nodes += [
        helper.make_node("Transpose", ["ones"], ["row"], perm=[0, 2, 1]),
        helper.make_node("MatMul", [said, "row"], ["spread"]),
        helper.make_node("Reshape", ["spread", "shape"], ["line"]),
        helper.make_node("Mul", ["line", "hundredth"], ["quiet"]),
    ]
    if takes_pitch:
        nodes += [
            helper.make_node("ReduceMean", ["noise", "channel"], ["mean_noise"]),
            helper.make_node("Reshape", ["mean_noise", "shape"], ["hiss"]),
            helper.make_node("Mul", ["hiss", "hundredth"], ["quiet_hiss"]),
            helper.make_node("Add", ["quiet", "quiet_hiss"], ["voiced"]),
        ]
    # The speaker and the length are only there because the contract says so.
    nodes += [
        helper.make_node("Add", ["ds", "phone_lengths"], ["both"]),
        helper.make_node("Sub", ["both", "both"], ["nothing"]),
        helper.make_node("Cast", ["nothing"], ["none"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["voiced" if takes_pitch else "quiet", "none"], ["audio"]),
    ]
    integer = TensorProto.INT64
    inputs = [
        small_graphs.tensor("phone", [1, "frames", channels]),
        small_graphs.tensor("phone_lengths", [1], integer),
        small_graphs.tensor("ds", [1], integer),
        small_graphs.tensor("rnd", [1, 192, "frames"]),
    ]
    if takes_pitch:
        inputs += [
            small_graphs.tensor("pitch", [1, "frames"], integer),
            small_graphs.tensor("pitchf", [1, "frames"]),
            small_graphs.tensor("noise", [1, "samples", harmonics]),
        ]
    audio = small_graphs.tensor("audio", [1, 1, "samples"])
    return small_graphs.content(helper.make_graph(nodes, "synthesizer", inputs, [audio], weights))


def retrieval_graph(
    vectors: NDArray[Any],
    centroids: NDArray[Any] | None = None,
    cells: Sequence[int] | None = None,
    cell_type: type[np.integer] = np.int64,
) -> bytes:
    """Make the graph that holds vectors, in one cell unless more is said."""
    arrays = {
        "vectors": vectors,
        "centroids": vectors[:1].astype(np.float32) if centroids is None else centroids,
        "cells": np.array([0] * len(vectors) if cells is None else cells, cell_type),
    }
    weights = [constant(f"{name}_data", value) for name, value in arrays.items()]
    nodes = [helper.make_node("Identity", [f"{name}_data"], [name]) for name in arrays]
    outputs = [
        small_graphs.tensor(name, value.shape, helper.np_dtype_to_tensor_dtype(value.dtype))
        for name, value in arrays.items()
    ]
    return small_graphs.content(helper.make_graph(nodes, "retrieval", [], outputs, weights))


def write_voice(folder: Path, contents: Mapping[str, bytes] | None = None, **changes: Any) -> Path:
    """Write the bundle of a voice; further graphs, by role, replace or add to its two."""
    by_role = {
        "content": content_graph(),
        "synthesizer": synthesizer_graph(),
        **(contents or {}),
    }
    bundle = folder / "tester"
    bundle.mkdir(parents=True)
    entries = {}
    for role, content in by_role.items():
        (bundle / f"{role}.onnx").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        entries[role] = {"file": f"{role}.onnx", "sha256": digest, "bytes": len(content)}
    said = {"engine": "rvc", "sample_rate": RATE, "graphs": entries, "settings": {}, **changes}
    (bundle / "character.json").write_text(json.dumps(manifest(**said)), "utf-8")
    return bundle
