"""RVC voices for tests: networks written in Python, small real graphs, and their bundles."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from shared.speech.engines.rvc_networks import SynthesizerNoise
from shared.speech.engines.rvc_signal import Contour, feature_count
from tests.unit.graphs import small_graphs
from tests.unit.graphs.bundles import manifest

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


def content_graph(
    channels: int = CHANNELS, *, rank: int = 3, is_transposed: bool = False, outputs: int = 1
) -> bytes:
    """Make a content encoder: convolutions with the hearing and the stride of a real one.

    Its outputs `features0`, `features1`, ... grow twice as wide; transposed they are [1, C, T].
    """
    random = np.random.default_rng(1)
    widths = [channels * 2**index for index in range(outputs)]
    kernels = {
        f"kernel{index}": random.standard_normal((width, 1, 400)).astype(np.float32) / 20
        for index, width in enumerate(widths)
    }
    nodes = "".join(
        f"convolved{index} = Conv <strides=[320]> (wave, kernel{index})\n"
        + (
            f"features{index} = Identity(convolved{index})\n"
            if is_transposed
            else f"features{index} = Transpose <perm=[0, 2, 1]> (convolved{index})\n"
        )
        for index in range(outputs)
    )
    shape = "float[1,{0},frames]" if is_transposed else "float[1,frames,{0}]"
    described = (f"{shape.format(width)} features{i}" for i, width in enumerate(widths))
    graph = small_graphs.graph(
        f"""
        content (float[{"1," * (rank - 1)}samples] source) => ({", ".join(described)})
        <int64[3] shape = {{1, 1, -1}}> {{ wave = Reshape(source, shape) {nodes} }}
        """,
        **kernels,
    )
    return small_graphs.content(graph)


def synthesizer_graph(
    channels: int = CHANNELS, *, takes_pitch: bool = True, hop: int = HOP, harmonics: int = 1
) -> bytes:
    """Make a synthesizer that adds up everything it is given, at a hundredth, plus noise."""
    pitch = f", int64[1,frames] pitch, float[1,frames] pitchf, float[1,samples,{harmonics}] noise"
    pitched = """
        coarse = Cast <to=1> (pitch)
        tones = Add(coarse, pitchf)
        tone = Reshape(tones, column_shape)
        said = Add(frames, tone)
        mean_noise = ReduceMean(noise, channel)
        hiss = Reshape(mean_noise, shape)
        quiet_hiss = Mul(hiss, hundredth)
    """
    plain = "said = Identity(frames) quiet_hiss = Sub(hundredth, hundredth)"
    graph = small_graphs.graph(
        f"""
        synthesizer (
            float[1,frames,{channels}] phone, int64[1] phone_lengths, int64[1] ds,
            float[1,192,frames] rnd {pitch if takes_pitch else ""}
        ) => (float[1,1,samples] audio)
        <
            int64[3] shape = {{1, 1, -1}}, int64[3] column_shape = {{1, -1, 1}},
            int64[1] channel = {{2}}, int64[1] latent = {{1}}, float hundredth = {{0.002}}
        > {{
            heard = ReduceMean <keepdims=1> (phone, channel)
            prior = ReduceMean <keepdims=1> (rnd, latent)
            column = Transpose <perm=[0, 2, 1]> (prior)
            frames = Add(heard, column)
            {pitched if takes_pitch else plain}
            spread = MatMul(said, row)
            line = Reshape(spread, shape)
            quiet = Mul(line, hundredth)
            voiced = Add(quiet, quiet_hiss)
            both = Add(ds, phone_lengths)
            nothing = Sub(both, both)
            none = Cast <to=1> (nothing)
            audio = Add(voiced, none)
        }}
        """,
        row=np.ones((1, 1, hop), np.float32),
    )
    return small_graphs.content(graph)


def retrieval_graph(
    vectors: NDArray[Any],
    cells: Sequence[int] | None = None,
    cell_type: type[np.integer] = np.int64,
) -> bytes:
    """Make the graph that holds vectors, in one cell unless more is said."""
    arrays = {
        "vectors": vectors,
        "centroids": vectors[:1].astype(np.float32),
        "cells": np.array([0] * len(vectors) if cells is None else cells, cell_type),
    }
    weights = [numpy_helper.from_array(value, f"{name}_data") for name, value in arrays.items()]
    nodes = [helper.make_node("Identity", [f"{name}_data"], [name]) for name in arrays]
    outputs = [
        small_graphs.tensor(name, value.shape, helper.np_dtype_to_tensor_dtype(value.dtype))
        for name, value in arrays.items()
    ]
    return small_graphs.content(helper.make_graph(nodes, "retrieval", [], outputs, weights))


def write_voice(folder: Path, contents: Mapping[str, bytes] | None = None, **changes: Any) -> Path:
    """Write the bundle of a voice; further graphs, by role, replace or add to its two."""
    by_role = {"content": content_graph(), "synthesizer": synthesizer_graph(), **(contents or {})}
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
