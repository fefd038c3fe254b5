"""Names out of a bundle's files, in the errors that refuse it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import ManifestError
from shared.speech.engines import japanese, kokoro
from shared.speech.engines.registry import ENGINES, build_engine, build_text_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.onnx_files import UnsafeModelError, inspect_model
from shared.speech.graphs.sessions import SessionSettings
from tests.unit.engines.rvc_voices import CHANNELS, retrieval_graph, write_voice
from tests.unit.graphs import small_graphs
from tests.unit.graphs.bundles import write_bundle, write_waveform_bundle
from tests.unit.graphs.test_onnx_files import constant, external, identity

NAME = "a\n\u2028\u202e\x1b[2J\x9b"
"""Two line breaks, a turn of the text's direction, and what clears a terminal."""

TOLD = r"a\n\u2028\u202e\x1b[2J\x9b"


def with_function() -> ModelProto:
    model = small_graphs.model(identity())
    model.functions.append(helper.make_function("", NAME, [], [], [], []))
    return model


def of_domain(kind: str, domain: str) -> ModelProto:
    node = helper.make_node(kind, ["x"], ["y"], domain=domain)
    return small_graphs.model(small_graphs.graph_of(node))


@pytest.mark.parametrize(
    "model",
    [
        with_function(),
        of_domain(NAME, "com.evil"),
        of_domain("Run", NAME),
        small_graphs.model(constant(external(NAME))),
        small_graphs.model(constant(external(location=NAME))),
    ],
    ids=["function", "operator", "domain", "tensor", "location"],
)
def test_a_name_in_a_graph_is_quoted(model: ModelProto) -> None:
    with pytest.raises(UnsafeModelError) as refused:
        inspect_model(small_graphs.serialized(model))

    assert TOLD in str(refused.value)
    assert str(refused.value).isprintable()


def build_all(bundle: Path) -> None:
    settings = SessionSettings()
    character = load_character(bundle, ENGINES)
    build_text_engine(character, build_engine(character, settings), settings)


def refusal(bundle: Path) -> str:
    with pytest.raises((BundleError, ManifestError)) as refused:
        build_all(bundle)
    sentence = str(refused.value)
    assert sentence.isprintable()
    return sentence


@pytest.mark.parametrize(
    "how", ["another input", "another size", "another type", "one more input", "no such operator"]
)
def test_a_name_in_a_graph_that_breaks_its_contract_is_quoted(tmp_path: Path, how: str) -> None:
    graph = small_graphs.harmonic_graph()
    if how == "another input":
        graph.input[1].CopyFrom(small_graphs.tensor(NAME, [1, "t"]))
    elif how == "another size":
        graph.input[1].CopyFrom(small_graphs.tensor("f0", [2, NAME]))
    elif how == "another type":
        graph.input[2].CopyFrom(small_graphs.tensor("voicing", [1, NAME], TensorProto.INT64))
    elif how == "one more input":
        graph.input.append(small_graphs.tensor(NAME, [1]))
    else:
        graph.node[-1].op_type = "\x1b[2J"

    assert r"\x1b[2J" in refusal(write_bundle(tmp_path, small_graphs.content(graph)))


def test_what_the_runtime_says_of_a_graph_is_in_one_line(tmp_path: Path) -> None:
    model = onnx.load_model_from_string(retrieval_graph(np.ones((9, CHANNELS), np.float32)))
    model.graph.node[0].output[0] = "inner"
    far = helper.make_node("Constant", [], ["far"], value_ints=[99])
    fails = helper.make_node("Gather", ["inner", "far"], ["vectors"], name=NAME)
    model.graph.node.extend([far, fails])

    sentence = refusal(write_voice(tmp_path, {"retrieval": small_graphs.serialized(model)}))

    assert "expected vectors for the retrieval, found: " in sentence


@pytest.mark.parametrize(
    "changes",
    [
        {NAME: 1},
        {"engine": NAME},
        {"id": NAME},
        {"settings": {NAME: 1}},
        {"options": {NAME: {}}},
        {"text": {"engine": NAME}},
    ],
    ids=str,
)
def test_a_name_in_a_manifest_is_quoted(tmp_path: Path, changes: dict[str, object]) -> None:
    bundle = write_waveform_bundle(tmp_path, small_graphs.gain_graph(1.0))
    manifest = bundle / "character.json"
    said = json.loads(manifest.read_text("utf-8"))
    manifest.write_text(json.dumps(said | changes), "utf-8")
    refusal(bundle)

    manifest.write_text('{"\\u2028": 1, "\\u2028": 2}', "utf-8")
    assert r"'\u2028'" in refusal(bundle)


def test_an_output_that_a_manifest_names_is_quoted(tmp_path: Path) -> None:
    assert TOLD in refusal(write_voice(tmp_path, settings={"content_output": NAME}))


@pytest.mark.parametrize("build", [japanese.build, kokoro.build])
@pytest.mark.parametrize("settings", [{NAME: 1}, {"gain": NAME}], ids=["name", "value"])
def test_a_setting_of_a_text_engine_is_quoted(
    tmp_path: Path, build: Callable[..., object], settings: dict[str, object]
) -> None:
    text = {"engine": "japanese", "settings": settings}
    bundle = write_waveform_bundle(tmp_path, small_graphs.gain_graph(1.0), text=text)
    manifest = load_character(bundle, ENGINES).manifest

    with pytest.raises(BundleError) as refused:
        build(manifest, SessionSettings())

    assert TOLD in str(refused.value)
    assert str(refused.value).isprintable()
