from __future__ import annotations

import base64
import io
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from shared.speech.engines.aivmx import AivmxError
from shared.speech.engines.style_bert_graphs import SYNTHESIS_CONTRACT
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.onnx_files import inspect_model
from tests.support.golden_speech import FOLDER
from tests.support.pipes import a_pipe
from tests.unit.graphs import small_graphs
from tools.bundles.files import VoiceFileError
from tools.importing.aivmx_files import parse_aivmx, read_text_voice

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()
WAV = "data:audio/wav;base64," + base64.b64encode(b"RIFF....WAVEfmt ").decode()
CONTENT = (FOLDER / "tiny.aivmx").read_bytes()
UUID = "a0000000-0000-4000-8000-000000000000"


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "manifest_version": "1.0",
        "name": "Tester",
        "model_architecture": "Style-Bert-VITS2 (JP-Extra)",
        "model_format": "ONNX",
        "uuid": "11111111-2222-4333-8444-555555555555",
        "version": "1.0.0",
        "speakers": [speaker()],
    } | changes


def speaker(**changes: Any) -> dict[str, Any]:
    return {
        "name": "Anna",
        "icon": PNG,
        "uuid": UUID,
        "local_id": 0,
        "styles": [style()],
    } | changes


def style(**changes: Any) -> dict[str, Any]:
    return {"name": "ノーマル", "local_id": 0} | changes


def parameters(**changes: Any) -> dict[str, Any]:
    return {"version": "2.7.0-JP-Extra", "data": {"sampling_rate": 44100}} | changes


def array(values: Any) -> str:
    file = io.BytesIO()
    np.save(file, values)
    return base64.b64encode(file.getvalue()).decode()


VECTORS = array(np.zeros((2, 256), np.float32))


def file(**metadata: str | None) -> bytes:
    """Make a small model with that metadata; None leaves an entry out."""
    model = small_graphs.model(random_graph())
    entries = {
        "aivm_manifest": json.dumps(manifest()),
        "aivm_hyper_parameters": json.dumps(parameters()),
        "aivm_style_vectors": VECTORS,
    } | metadata
    helper.set_model_props(model, {name: value for name, value in entries.items() if value})
    return small_graphs.serialized(model)


def random_graph(operator: str = "RandomNormalLike", **attributes: Any) -> onnx.GraphProto:
    nodes = [
        helper.make_node(operator, ["x"], ["first"], **attributes),
        helper.make_node("RandomNormalLike", ["first"], ["second"]),
        helper.make_node("Add", ["first", "second"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    shape = ["rows", "columns"]
    return helper.make_graph(
        nodes,
        "random",
        [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, shape), value("first", TensorProto.FLOAT, shape)],
    )


def test_a_voice_is_read_completely() -> None:
    imported = parse_aivmx(CONTENT)

    assert (imported.facts.name, imported.facts.version) == ("tiny", "1.0.0")
    assert imported.facts.licence == "CC0-1.0 (random weights, no voice)"
    assert imported.facts.creators == ("parity",)
    assert [speaker.name for speaker in imported.facts.voice.speakers] == ["tiny-a", "tiny-b"]
    assert [style.name for style in imported.facts.voice.speakers[1].styles] == [
        "ノーマル",
        "Happy",
        "Sad",
    ]
    assert imported.facts.voice.sample_rate == 44_100
    assert imported.facts.voice.style_vectors.shape == (3, 256)
    assert imported.facts.icons[UUID].content_type == "image/png"
    SYNTHESIS_CONTRACT.check(Graph("voice.onnx", imported.graph, inspect_model(imported.graph)))


def test_icons_and_samples_are_read_from_the_file() -> None:
    sample = {"audio": WAV, "transcript": "こんにちは"}
    content = file(
        aivm_manifest=json.dumps(
            manifest(speakers=[speaker(styles=[style(icon=PNG, voice_samples=[sample])])])
        )
    )

    (media,) = parse_aivmx(content).facts.media.values()

    assert media.icon is not None
    assert media.icon.content == b"\x89PNG\r\n\x1a\n...."
    assert media.samples[0].sound.content_type == "audio/wav"
    assert media.samples[0].transcript == "こんにちは"


def test_the_noise_is_an_input_that_is_read_round_and_round() -> None:
    session = onnxruntime.InferenceSession(parse_aivmx(file()).graph)
    noise = np.arange(4, dtype=np.float32)

    (result,) = session.run(None, {"x": np.zeros((2, 3), np.float32), "noise": noise})

    first = np.array([0, 1, 2, 3, 0, 1])
    second = np.array([2, 3, 0, 1, 2, 3])
    assert np.asarray(result).ravel().tolist() == (first + second).tolist()


def of_manifest(**changes: Any) -> Callable[[], bytes]:
    return lambda: file(aivm_manifest=json.dumps(manifest(**changes)))


def of_style(**changes: Any) -> Callable[[], bytes]:
    return of_manifest(speakers=[speaker(styles=[style(**changes)])])


def of_vectors(values: Any) -> Callable[[], bytes]:
    return lambda: file(aivm_style_vectors=array(values))


def huge_array() -> str:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 256)}
    )
    return base64.b64encode(header.getvalue()).decode()


def endless_array() -> str:
    header = ("{'descr': '<f4', 'shape': " + "-" * 9_000 + "1}").encode()
    return base64.b64encode(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header).decode()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: b"no model", "expected an ONNX model"),
        (lambda: file(aivm_manifest=None), "expected 'aivm_manifest' in the model's metadata"),
        (lambda: file(aivm_manifest="[" * 100_000), "aivm_manifest: Invalid JSON"),
        (of_manifest(model_architecture="Style-Bert-VITS2"), "field 'model_architecture'"),
        (of_manifest(speakers=[speaker(), speaker()]), "each local_id of speakers once"),
        (of_manifest(speakers=[speaker(), speaker(local_id=1)]), "each uuid of speakers once"),
        (of_manifest(speakers=[speaker(local_id=1)]), "expected a local_id below 1, found 1"),
        (of_manifest(speakers=[speaker(icon="https://x/")]), "icon of 'Anna': expected a data URL"),
        (of_manifest(speakers=[speaker(icon=PNG + "!")]), "found one that is not base64"),
        (
            of_manifest(speakers=[speaker(icon="data:image/jpeg;base64,AAAA")]),
            "found content of another type",
        ),
        (
            of_manifest(speakers=[speaker(icon=PNG + "A" * (6 << 20))]),
            "of at most 4194304 bytes, found more",
        ),
        (of_style(local_id=2), "expected a local_id below 2, the number of style vectors"),
        (of_manifest(speakers=[speaker(styles=[style(), style()])]), "local_id of styles once"),
        (
            lambda: file(aivm_hyper_parameters=json.dumps(parameters(version="2.7.0"))),
            "field 'version': expected one of JP-Extra",
        ),
        (
            lambda: file(aivm_hyper_parameters=json.dumps(parameters(data={"sampling_rate": 1}))),
            "field 'data.sampling_rate': Input should be greater than or equal to 8000",
        ),
        (lambda: file(aivm_style_vectors="AAAA"), "in base64, found no array"),
        (lambda: file(aivm_style_vectors=endless_array()), "in base64, found no array"),
        (of_vectors(np.zeros((2, 255), np.float32)), r"found float32 \[2, 255\]"),
        (of_vectors(np.array([[None] * 256])), r"found object \[1, 256\]"),
        (of_vectors(np.full((1, 256), np.nan, np.float32)), "values that are not finite"),
        (lambda: file(aivm_style_vectors=huge_array()), "found 0 bytes for"),
    ],
)
def test_a_file_that_is_not_as_it_must_be_is_refused_with_a_sentence(
    make: Callable[[], bytes], sentence: str
) -> None:
    with pytest.raises(AivmxError, match=sentence):
        parse_aivmx(make())


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (random_graph("RandomUniformLike"), "operator 'RandomUniformLike': expected chance from"),
        (random_graph(scale=2.0), "expected mean 0 and scale 1"),
        (random_graph(dtype=TensorProto.DOUBLE), "expected float32, found another type"),
    ],
)
def test_chance_that_cannot_be_taken_out_is_refused(graph: onnx.GraphProto, sentence: str) -> None:
    model = small_graphs.model(graph)
    source = onnx.load_model_from_string(file())
    model.metadata_props.extend(source.metadata_props)

    with pytest.raises(AivmxError, match=sentence):
        parse_aivmx(small_graphs.serialized(model))


HOSTILE = "a\n\u2028\u202e\x1b[2J"


@pytest.mark.parametrize(
    "make",
    [
        of_manifest(model_architecture=HOSTILE),
        of_manifest(model_architecture="x" * 1_000_000),
        of_manifest(uuid="\x7f"),
        of_manifest(speakers=[speaker(name=HOSTILE, icon="no")]),
        of_style(name=HOSTILE, icon="no"),
        lambda: file(aivm_hyper_parameters=json.dumps(parameters(version=HOSTILE))),
    ],
)
def test_what_a_file_says_of_itself_is_quoted(make: Callable[[], bytes]) -> None:
    with pytest.raises(AivmxError) as refused:
        parse_aivmx(make())

    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 2_000


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "voice.aivmx"

    with a_pipe(path), pytest.raises(VoiceFileError, match=r"voice\.aivmx: expected a file"):
        read_text_voice(path)
