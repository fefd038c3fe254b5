from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.unit.importing.voices import Kind, variants, voice_bytes, weights_of
from tools.bundles.files import VoiceFileError
from tools.importing import synthesizer_trial
from tools.importing.exports import read_export
from tools.importing.graph_builder import FLOAT, GraphBuilder
from tools.importing.synthesizer import PitchSource, build_synthesizer
from tools.importing.voice_file import VoiceFile, read_voice

DATA = Path(__file__).parents[2] / "data" / "rvc"


def a_voice(kind: Kind) -> VoiceFile:
    return read_voice(io.BytesIO(voice_bytes(kind)))


def run(graph: bytes, inputs: dict[str, Any]) -> Any:
    return onnxruntime.InferenceSession(graph).run(["audio"], inputs)[0]


def inputs_for(voice: VoiceFile, frames: int) -> dict[str, Any]:
    harmonics = voice.weights["dec.m_source.l_linear.weight"].shape[1] if voice.has_pitch else 0
    features = {"v1": 256, "v2": 768}[voice.version]
    inputs = synthesizer_trial.Inputs(
        features, voice.sizes.inter_channels, voice.has_pitch, harmonics
    )
    return synthesizer_trial.feeds(inputs, frames, voice.sizes.hop)


with np.load(DATA / "formulas.npz") as arrays:
    FORMULAS = dict(arrays)

CASES = [
    *((name, name, 33, 0) for name in variants()),
    *((f"{frames} frames", "40k", frames, 0) for frames in (1, 10, 11)),
    ("another speaker", "40k", 33, 2),
]


@pytest.mark.parametrize(("case", "kind", "frames", "speaker"), CASES, ids=str)
def test_a_voice_of_every_kind_sounds_as_its_formulas_say(
    case: str, kind: str, frames: int, speaker: int
) -> None:
    voice = a_voice(variants()[kind])
    inputs = inputs_for(voice, frames) | {"ds": np.array([speaker])}

    audio = run(build_synthesizer(voice), inputs)

    assert audio.shape == (1, 1, frames * voice.sizes.hop)
    assert np.abs(audio[0, 0, ::37] - FORMULAS[case]).max() < 2e-6


def test_a_real_voice_sounds_as_the_official_export_of_it() -> None:
    with (DATA / "v2-f0-40k.pth").open("rb") as file:
        voice = read_voice(file)
    export = read_export((DATA / "v2-f0-40k.official-2024-11.onnx").read_bytes())
    inputs = inputs_for(voice, 150)

    audio, expected = run(build_synthesizer(voice), inputs), run(export.graph, inputs)

    assert np.abs(expected).max() > 0.1
    assert np.abs(audio - expected).max() < 1e-5


def test_the_phase_stays_exact_for_minutes() -> None:
    frames, hop, rate = 12_000, 400, 40_000
    hertz = (200 + 90 * np.sin(np.arange(frames) / 50)).astype(np.float32)[None]
    graph = GraphBuilder()
    pitch, noise = (graph.input(name, FLOAT, (1, None)) for name in ("pitchf", "noise"))
    source = PitchSource(graph, hop, rate, np.ones((1, 1), np.float32), np.zeros(1, np.float32))
    graph.output(source.add(pitch, noise), "audio", FLOAT, (1, 1, 1, "N"))

    audio = run(graph.model("source", {}), {"pitchf": hertz, "noise": np.zeros((1, 1), np.float32)})

    turns = np.cumsum(np.repeat((hertz[0] / np.float32(rate)).astype(np.float64), hop))
    expected = np.tanh(0.1 * np.sin(2 * np.pi * turns))
    assert np.abs(audio[0, 0, 0] - expected).max() < 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dec.conv_pre.bias": None}, "tensor 'dec.conv_pre.bias': expected [32], found none."),
        (
            {"dec.cond.weight": np.ones((32, 5, 1), np.float16)},
            "tensor 'dec.cond.weight': expected [32, 4, 1], found [32, 5, 1].",
        ),
        (
            {"dec.extra.weight": np.ones((2, 2), np.float16)},
            "tensor 'dec.extra.weight': expected none of this name in such a voice, found [2, 2].",
        ),
    ],
)
def test_weights_of_another_network_are_refused_by_name(
    change: dict[str, Any], message: str
) -> None:
    changed = weights_of(Kind()) | change
    weights = {name: value for name, value in changed.items() if value is not None}
    voice = read_voice(io.BytesIO(voice_bytes(weights=weights)))

    with pytest.raises(VoiceFileError) as refused:
        build_synthesizer(voice)

    assert str(refused.value) == message
