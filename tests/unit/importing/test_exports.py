from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from shared.speech.graphs.onnx_files import inspect_model
from tests.unit.importing import exported
from tests.unit.importing.exported import Export
from tests.unit.importing.voices import SPEAKERS, Kind
from tools.bundles.files import VoiceFileError
from tools.importing import synthesizer_trial
from tools.importing.exports import read_export
from tools.importing.graph_edits import EditedGraph, repair_phase

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[2] / "data" / "rvc"
PLAIN = Kind(channels=16)
SILENT = replace(PLAIN, has_pitch=False)
CONTRACT = ["phone", "phone_lengths", "pitch", "pitchf", "ds", "rnd", "noise"]


def run(graph: bytes, inputs: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(graph, options).run(["audio"], inputs)[0]


def inputs_for(kind: Kind, frames: int) -> dict[str, Any]:
    harmonics = kind.harmonics if kind.has_pitch else 0
    inputs = synthesizer_trial.Inputs(kind.features, 6, kind.has_pitch, harmonics)
    return synthesizer_trial.feeds(inputs, frames, kind.sample_rate // 100)


@pytest.mark.parametrize(
    ("make", "family", "kind"),
    [
        (Export, "Voice Avatar", PLAIN),
        (exported.official, "RVC", PLAIN),
        (exported.official, "RVC", replace(PLAIN, version="v2", sample_rate=48_000, is_mrf=True)),
        (exported.official, "RVC", SILENT),
        (exported.voice_changer, "voice-changer", replace(PLAIN, sample_rate=32_000)),
        (exported.voice_changer, "voice-changer", SILENT),
        (exported.fork, "voice-changer fork", PLAIN),
        (exported.streaming, "streaming export", PLAIN),
    ],
)
def test_an_export_of_every_family_sounds_as_the_voice_it_was_made_of(
    make: Callable[[Kind], Export], family: str, kind: Kind
) -> None:
    export = make(kind)

    voice = read_export(export.content())

    assert voice.family == family
    assert (voice.version, voice.has_pitch) == (kind.version, kind.has_pitch)
    assert (voice.sample_rate, voice.speakers) == (kind.sample_rate, SPEAKERS)
    inputs = inputs_for(kind, 41)
    assert list(inspect_model(voice.graph).inputs) == [each for each in CONTRACT if each in inputs]
    audio = run(voice.graph, inputs)
    assert audio.shape == (1, 1, 41 * kind.sample_rate // 100)
    assert np.abs(audio - run(export.original, inputs)).max() < 5e-6


def test_half_precision_is_widened() -> None:
    export = Export(SILENT).halve()

    voice = read_export(export.content())

    assert voice.repairs == ["Half precision was widened to single precision."]
    assert inspect_model(voice.graph).inputs["phone"].element_type == "float32"
    inputs = inputs_for(SILENT, 30)
    apart = np.abs(run(voice.graph, inputs) - run(export.original, inputs)).max()
    assert 0 < apart < 5e-3


def test_what_an_export_says_of_itself_is_kept() -> None:
    content = exported.voice_changer(SILENT).say(embedder="hubert_base", samplingRate=48_000)

    voice = read_export(content.content())

    assert voice.facts == {"embedder": "hubert_base"}
    assert "The file says 48000 Hz, but its network makes 40000 Hz." in voice.repairs


def test_an_official_export_becomes_repeatable() -> None:
    voice = read_export((DATA / "v2-f0-40k.official-2024-11.onnx").read_bytes())

    assert (voice.family, voice.version, voice.sample_rate) == ("RVC", "v2", 40_000)
    assert voice.speakers == 4
    assert voice.repairs == ["Random numbers inside of the graph became inputs."]
    inputs = synthesizer_trial.feeds(
        synthesizer_trial.Inputs(768, 192, has_pitch=True, harmonics=1), 70, 400
    )
    session = onnxruntime.InferenceSession(voice.graph)
    first, second = (np.asarray(session.run(["audio"], inputs)[0]) for _ in range(2))
    assert np.array_equal(first, second)
    other = np.asarray(session.run(["audio"], dict(inputs, noise=-inputs["noise"]))[0])
    assert np.abs(other - first).max() > 1e-4


def test_the_phase_is_repaired_where_nothing_is_voiced() -> None:
    hop, rate = 400, 40_000
    voiced = np.arange(800) % 40 < 15
    turns = np.where(voiced, np.float32(210 / rate), np.float32(0))[None, :, None]
    expected = np.cumsum(np.repeat(turns[0, :, 0].astype(np.float64), hop))

    def worst(model: onnx.ModelProto) -> float:
        content: bytes = model.SerializeToString()
        session = onnxruntime.InferenceSession(content)
        phase = np.asarray(session.run(None, {"turns": turns})[0])[0, :, 0]
        return float(np.abs(np.sin(2 * np.pi * phase) - np.sin(2 * np.pi * expected)).max())

    model = onnx.load(DATA / "old-source.onnx")
    before = worst(model)
    model.graph.output[0].name = "turned"
    model.graph.node.append(helper.make_node("Identity", ["phase"], ["turned"]))

    assert repair_phase(EditedGraph(model))

    assert before > 1e-3
    assert worst(model) < 1e-6


def refusal(content: bytes) -> str:
    with pytest.raises(VoiceFileError) as refused:
        read_export(content)
    message = str(refused.value)
    assert "\n" not in message
    assert message.isascii()
    return message


def test_an_export_that_takes_one_length_only_is_refused_with_what_to_do() -> None:
    export = exported.official(SILENT)
    export.constant("fixed", np.array([1, 1, 200 * 400], np.int64))
    export.end_with(helper.make_node("Reshape", ["inner", "fixed"], ["audio"]), shape=[1, 1, "N"])

    message = refusal(export.content())

    assert message.startswith(
        "expected a graph that takes any number of frames, found one that takes only 200"
    )
    assert message.endswith("bring the voice's .pth instead.")


def test_random_numbers_of_an_unknown_shape_are_refused() -> None:
    export = Export(SILENT)
    export.end_with(
        helper.make_node("RandomNormal", [], ["drawn"], shape=[1, 1, 7]),
        helper.make_node("ReduceMean", ["drawn"], ["level"]),
        helper.make_node("Add", ["inner", "level"], ["audio"]),
        shape=[1, 1, "N"],
    )

    assert refusal(export.content()) == (
        "expected the random numbers of an RVC voice, "
        "found 'RandomNormal' of the shape '[1, 1, 7]'."
    )


def test_random_numbers_that_cannot_be_seen_are_refused() -> None:
    export = Export(SILENT)
    export.constant("chance", np.full((1, 1, 1), 0.5, np.float32))
    export.end_with(
        helper.make_node("Bernoulli", ["chance"], ["drawn"]),
        helper.make_node("Bernoulli", ["many"], ["others"]),
        helper.make_node("ReduceMean", ["others"], ["level"]),
        helper.make_node("Add", ["inner", "level"], ["shifted"]),
        helper.make_node("Add", ["shifted", "drawn"], ["audio"]),
        shape=[1, 1, "N"],
    )
    export.constant("many", np.full(10_000, 0.5, np.float32))

    assert refusal(export.content()).startswith("expected the same audio from the same inputs")


def test_a_graph_of_another_kind_is_refused_with_its_inputs() -> None:
    message = refusal(Export(SILENT).rename({"phone": "tokens"}).content())

    assert "found 'ds', 'phone_lengths', 'rnd', 'tokens'" in message


def test_a_graph_with_half_of_the_pitch_is_refused() -> None:
    export = Export(SILENT).add_input("pitch", TensorProto.INT64, [1, "T"])

    assert refusal(export.content()) == (
        "expected both of the inputs 'pitch' and 'pitchf' or none, found one."
    )


def test_a_graph_with_operators_of_its_own_is_refused_before_it_runs() -> None:
    export = Export(SILENT)
    export.model.opset_import.append(helper.make_opsetid("com.evil", 1))
    node = helper.make_node("RunShell", ["inner"], ["audio"], domain="com.evil")
    export.end_with(node, shape=[1, 1, "N"])
    content: bytes = export.model.SerializeToString()

    assert "com.evil" in refusal(content)
