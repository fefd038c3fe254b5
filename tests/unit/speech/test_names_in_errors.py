"""Names out of a bundle's files, in the errors that refuse it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

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
from tests.unit.graphs.test_bundle import SVG, write_portrait
from tests.unit.graphs.test_onnx_files import constant, external

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from onnx import GraphProto, ModelProto

NAME = "a\n\u2028\u202e\x1b[2J\x9b"
"""Two line breaks, a turn of the text's direction, and what clears a terminal."""

TOLD = r"a\n\u2028\u202e\x1b[2J\x9b"


def with_function() -> ModelProto:
    model = small_graphs.model(identity())
    model.functions.append(helper.make_function("", NAME, [], [], [], []))
    return model


def identity() -> GraphProto:
    return small_graphs.graph_of(helper.make_node("Identity", ["x"], ["y"]))


def of_domain(kind: str, domain: str) -> ModelProto:
    node = helper.make_node(kind, ["x"], ["y"], domain=domain)
    return small_graphs.model(small_graphs.graph_of(node))


def with_a_type_twice() -> bytes:
    kind = small_graphs.tensor("x", [1]).type.SerializeToString()
    name = NAME.encode()
    extra = b"\x0a" + bytes([len(name)]) + name + (b"\x12" + bytes([len(kind)]) + kind) * 2
    graph = identity()
    graph.ClearField("input")
    body: bytes = graph.SerializeToString() + b"\x5a" + bytes([len(extra)]) + extra
    return b"\x3a" + bytes([len(body)]) + body


@pytest.mark.parametrize(
    "content",
    [
        with_function().SerializeToString(),
        of_domain(NAME, "com.evil").SerializeToString(),
        of_domain("Run", NAME).SerializeToString(),
        small_graphs.content(constant(external(NAME))),
        small_graphs.content(constant(external(location=NAME))),
        with_a_type_twice(),
    ],
    ids=["function", "operator", "domain", "tensor", "location", "type"],
)
def test_a_name_in_a_graph_is_quoted(content: bytes) -> None:
    with pytest.raises(UnsafeModelError) as refused:
        inspect_model(content)

    assert TOLD in str(refused.value)
    assert str(refused.value).isprintable()


def build_all(bundle: Path, settings: SessionSettings) -> None:
    character = load_character(bundle, ENGINES)
    build_text_engine(character, build_engine(character, settings), settings)


def refusal(bundle: Path) -> str:
    settings = SessionSettings()
    with pytest.raises((BundleError, ManifestError)) as refused:
        build_all(bundle, settings)
    return str(refused.value)


def changed(index: int, name: str, *shape: int | str) -> bytes:
    graph = small_graphs.harmonic_graph()
    graph.input[index].CopyFrom(small_graphs.tensor(name, shape))
    return small_graphs.content(graph)


def unknown_operator() -> bytes:
    graph = small_graphs.harmonic_graph()
    graph.node[-1].op_type = "\x1b[2J"
    return small_graphs.content(graph)


def one_more_input() -> bytes:
    graph = small_graphs.harmonic_graph()
    graph.input.append(small_graphs.tensor(NAME, [1]))
    return small_graphs.content(graph)


@pytest.mark.parametrize(
    "content",
    [changed(1, NAME, 1, "t"), changed(1, "f0", 2, NAME), one_more_input(), unknown_operator()],
    ids=["another input", "size", "one more input", "operator"],
)
def test_a_name_in_a_graph_that_breaks_its_contract_is_quoted(
    tmp_path: Path, content: bytes
) -> None:
    sentence = refusal(write_bundle(tmp_path, content))

    assert sentence.isprintable()
    assert r"\x1b[2J" in sentence


def test_an_output_that_a_manifest_names_is_quoted(tmp_path: Path) -> None:
    sentence = refusal(write_voice(tmp_path, settings={"content_output": NAME}))

    assert TOLD in sentence
    assert sentence.isprintable()


def test_what_the_runtime_says_of_a_graph_is_in_one_line(tmp_path: Path) -> None:
    model = onnx.load_model_from_string(retrieval_graph(np.ones((9, CHANNELS), np.float32)))
    model.graph.node[0].output[0] = "inner"
    far = helper.make_node("Constant", [], ["far"], value_ints=[99])
    fails = helper.make_node("Gather", ["inner", "far"], ["vectors"], name=NAME)
    model.graph.node.extend([far, fails])

    sentence = refusal(write_voice(tmp_path, {"retrieval": small_graphs.serialized(model)}))

    assert "expected vectors for the retrieval, found: " in sentence
    assert sentence.isprintable()


@pytest.mark.parametrize(
    ("drawing", "told"),
    [
        ("<a\u200db/>", None),
        ('<path d\u200d="1"/>', None),
        ('<path fill="url(x&#10;&#x2028;&#x202e;)"/>', r"url(x\n\u2028\u202e)"),
        ('<image href="&#10;&#x2028;"/>', r"\n\u2028"),
        ("<b>&\u202e;</b>", None),
    ],
)
def test_what_a_portrait_names_is_quoted(tmp_path: Path, drawing: str, told: str | None) -> None:
    sentence = refusal(write_portrait(tmp_path, SVG.format(drawing)))

    assert sentence.isprintable()
    assert told is None or told in sentence


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
    manifest.write_text(json.dumps(json.loads(manifest.read_text("utf-8")) | changes), "utf-8")

    assert refusal(bundle).isprintable()


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


def test_a_field_that_stands_twice_in_a_manifest_is_quoted(tmp_path: Path) -> None:
    bundle = write_waveform_bundle(tmp_path, small_graphs.gain_graph(1.0))
    (bundle / "character.json").write_text('{"\\u2028": 1, "\\u2028": 2}', "utf-8")

    assert r"'\u2028'" in refusal(bundle)


def test_a_graph_of_another_type_is_named_by_its_own_name(tmp_path: Path) -> None:
    graph = small_graphs.harmonic_graph()
    graph.input[2].CopyFrom(small_graphs.tensor("voicing", [1, NAME], TensorProto.INT64))

    assert refusal(write_bundle(tmp_path, small_graphs.content(graph))).isprintable()
