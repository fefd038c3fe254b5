import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, TensorProto

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import read_manifests
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle_folders import load_character, load_characters, seal_manifest
from tests.support.logs import log_book
from tests.unit.graphs import small_graphs
from tests.unit.graphs.bundles import build, manifest, write_bundle, write_waveform_bundle
from tests.unit.graphs.test_onnx_files import external, foreign, with_initializer
from tools.importing.importer import check_command

SETTINGS = {"input": "audio", "output": "converted", "input_sample_rate": 24_000}


def refusal(bundle: Path) -> str:
    with pytest.raises(BundleError) as error:
        build(bundle)
    sentence = str(error.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert re.search(r"expected .*found", sentence), sentence
    return sentence


def test_a_folder_without_bundles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="expected at least one character bundle"):
        load_characters(tmp_path, ENGINES)


def share_graph(bundle: Path) -> dict[str, Any]:
    """Move the graph of a bundle beside it, named by its hash; return its entry in the manifest."""
    said: dict[str, Any] = json.loads((bundle / "character.json").read_text("utf-8"))
    entry: dict[str, Any] = said["graphs"]["harmonic"]
    (bundle.parent / "encoders").mkdir()
    (bundle / "harmonic.onnx").rename(bundle.parent / "encoders" / f"{entry['sha256']}.onnx")
    return entry


def test_a_graph_that_characters_share_lies_beside_them_by_its_hash(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    before = json.loads((bundle / "character.json").read_text("utf-8"))
    entry = share_graph(bundle)

    character = load_character(bundle, ENGINES)

    assert len(character.graphs["harmonic"].content) == entry["bytes"]
    assert list(character.graphs["harmonic"].facts.inputs) == ["wave", "f0", "voicing", "noise"]
    assert list(load_characters(tmp_path, ENGINES)) == ["tester"]
    seal_manifest(bundle, 1 << 30)
    assert json.loads((bundle / "character.json").read_text("utf-8")) == before


def spoil(bundle: Path, how: str) -> None:
    graph = bundle / "harmonic.onnx"
    content = graph.read_bytes()
    if how == "no manifest":
        (bundle / "character.json").unlink()
    elif how == "no graph":
        graph.unlink()
    elif how == "longer":
        graph.write_bytes(content + b"!")
    elif how == "changed":
        graph.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif how == "linked":
        graph.rename(bundle.parent / "outside.onnx")
        graph.symlink_to(bundle.parent / "outside.onnx")
    else:
        shared = bundle.parent / "encoders" / f"{share_graph(bundle)['sha256']}.onnx"
        shared.write_bytes(b"x" * len(content))


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("no manifest", r"character\.json: .*readable file"),
        ("no graph", r"harmonic\.onnx: expected a file in"),
        ("longer", r"harmonic\.onnx: expected (\d+) bytes, found \d+\.$"),
        ("changed", r"harmonic\.onnx: expected SHA-256 [0-9a-f]{64}, found [0-9a-f]{64}\.$"),
        ("linked", "found a link"),
        ("shared and changed", r"harmonic\.onnx: expected SHA-256"),
    ],
)
def test_files_that_are_not_those_of_the_manifest_are_refused(
    how: str, sentence: str, tmp_path: Path
) -> None:
    bundle = write_bundle(tmp_path)
    spoil(bundle, how)

    assert re.search(sentence, refusal(bundle))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"engine": "opera"}, f"'engine': expected one of {', '.join(ENGINES)}, found 'opera'."),
        (
            {"graphs": {"vocoder": {"file": "harmonic.onnx", "sha256": "0" * 64, "bytes": 1}}},
            "'graphs': expected 'harmonic' for the engine harmonic, found 'vocoder'",
        ),
        ({"options": {"index": {}}}, "'options': expected none for the engine harmonic, found 'in"),
        ({"id": "somebody"}, "'id': expected the folder's name 'tester', found 'somebody'"),
        ({"pitch": None}, "'pitch': expected an object for the engine harmonic, found null"),
        ({"sample_rate": 22_222}, "'sample_rate': expected a multiple of 100, found 22222"),
        (
            {"preview": {"colour": "#000000", "portrait": "face.svg"}},
            "face.svg: expected a file in",
        ),
    ],
)
def test_a_manifest_that_does_not_suit_its_engine_or_folder_is_refused(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    assert sentence in refusal(write_bundle(tmp_path, **changes))


def test_bytes_in_the_runtimes_own_format_run_as_the_checked_graph(tmp_path: Path) -> None:
    # The runtime knows its own format by the mark ORTM; here it stands in an unknown field.
    disguised = b"\x0a\x06\x00\x00ORTM" + small_graphs.content(small_graphs.harmonic_graph())
    build(write_bundle(tmp_path, disguised))


WRONG_F0 = "harmonic.onnx: input 'f0': expected float32 [1, frames], found"


def changed_input(
    index: int, name: str, shape: list[int | str | None], kind: int = TensorProto.FLOAT
) -> GraphProto:
    graph = small_graphs.harmonic_graph()
    graph.input[index].CopyFrom(small_graphs.tensor(name, shape, kind))
    return graph


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (
            changed_input(1, "pitch", [1, "t"]),
            f"{WRONG_F0} only the inputs 'wave', 'pitch', 'voicing', 'noise'.",
        ),
        (changed_input(1, "f0", [1, 1, "t"]), f"{WRONG_F0} float32 [1, 1, t]."),
        (changed_input(1, "f0", [2, 100]), f"{WRONG_F0} float32 [2, 100]."),
        (
            changed_input(2, "voicing", [1, "t"], TensorProto.INT64),
            "harmonic.onnx: input 'voicing': expected float32 [1, frames], found int64 [1, t].",
        ),
    ],
)
def test_a_wrong_tensor_is_refused_by_name_type_and_shape(
    tmp_path: Path, graph: GraphProto, sentence: str
) -> None:
    assert refusal(write_bundle(tmp_path, small_graphs.content(graph))) == sentence


def changed_graph(how: str) -> GraphProto:
    graph = small_graphs.harmonic_graph()
    if how == "one more input":
        graph.input.append(small_graphs.tensor("speaker", [1]))
    elif how == "no such operator":
        graph.node[-1].op_type = "Slicer"
    else:
        (flat,) = (each for each in graph.initializer if each.name == "flat")
        flat.raw_data = np.array([7, -1]).tobytes()
    return graph


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (foreign(), "harmonic.onnx: operator 'RunShell': expected the standard domain"),
        (
            with_initializer(external(location="/etc/passwd")),
            "tensor 'weights': expected its data inside the file",
        ),
        (b"RIFF....WAVE", "harmonic.onnx: expected an ONNX model"),
        (changed_graph("one more input"), "input 'speaker': expected only the inputs 'wave'"),
        (changed_graph("no such operator"), "expected a graph that ONNX Runtime"),
        (
            changed_graph("fails when it runs"),
            "harmonic.onnx: expected a graph that takes 'wave' [1, 1440]",
        ),
        (small_graphs.harmonic_graph(amplitude=float("nan")), "expected finite samples"),
    ],
)
def test_a_graph_that_is_unsafe_or_does_not_work_is_refused(
    tmp_path: Path, graph: GraphProto | bytes, sentence: str
) -> None:
    content = graph if isinstance(graph, bytes) else small_graphs.content(graph)
    assert sentence in refusal(write_bundle(tmp_path, content))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "field 'settings.input_sample_rate': expected a multiple of 100"),
        (SETTINGS | {"input_sample_rate": 16_000.5}, "found 16000.5"),
        (SETTINGS | {"input": 3}, "field 'settings.input': expected the name of a tensor, found 3"),
        (
            SETTINGS | {"input": "sound"},
            "waveform.onnx: input 'sound': expected float32 [samples] or [1, samples] or",
        ),
        (
            SETTINGS | {"gpu": True},
            "field 'settings.gpu': expected only input, output, input_sample_rate",
        ),
    ],
)
def test_settings_that_do_not_suit_the_waveform_engine_are_refused(
    tmp_path: Path, settings: dict[str, Any], sentence: str
) -> None:
    bundle = write_waveform_bundle(tmp_path, small_graphs.gain_graph(1.0), settings=settings)
    assert sentence in refusal(bundle)


def test_converter_and_api_identify_a_bundle_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "versions").mkdir()
    (tmp_path / "characters").mkdir()
    bundle = write_bundle(tmp_path / "versions").rename(tmp_path / "versions" / "tester-3")
    (tmp_path / "characters" / "tester").symlink_to(bundle)

    assert list(load_characters(tmp_path / "characters", ENGINES)) == ["tester"]
    assert list(read_manifests(tmp_path / "characters")) == ["tester"]
    assert "expected the folder's name 'tester-3'" in refusal(bundle)
    monkeypatch.chdir(tmp_path / "characters" / "tester")
    assert "expected the folder's name 'tester-3'" in refusal(Path())


def test_the_command_says_in_one_sentence_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("empty", "silent", "unsealed"):
        (tmp_path / name).mkdir()
    silent = write_waveform_bundle(tmp_path / "silent", small_graphs.gain_graph(0.0))
    bundle = write_bundle(tmp_path / "empty")
    (tmp_path / "unsealed" / "character.json").write_text("[]", "utf-8")

    def complaint(*arguments: object) -> str:
        assert check_command(list(map(str, arguments))) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err

    assert "expected at most 100 bytes" in complaint(bundle, "--max-megabytes", "0.0001")
    (bundle / "harmonic.onnx").write_bytes(b"")
    assert re.fullmatch(r"harmonic\.onnx: expected \d+ bytes, found 0\.\n", complaint(bundle))
    assert "found silence" in complaint(silent)
    unsealed = complaint("--seal", tmp_path / "unsealed")
    assert "expected a manifest whose graphs name their files" in unsealed


def test_sealing_writes_sizes_and_hashes_into_the_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = write_bundle(tmp_path)
    said = manifest(
        graphs={"harmonic": {"file": "harmonic.onnx", "sha256": "", "bytes": 0}}, credit="声"
    )
    (bundle / "character.json").write_text(json.dumps(said), "utf-8")
    assert check_command(["--seal", str(bundle)]) == 0
    assert "Tester works" in capsys.readouterr().out
    assert load_character(bundle, ENGINES).manifest.credit == "声"


def test_graphs_that_are_too_large_together_are_refused_before_they_are_read(
    tmp_path: Path,
) -> None:
    bundle = write_bundle(tmp_path)
    size = (bundle / "harmonic.onnx").stat().st_size
    load_character(bundle, ENGINES, max_bytes=size)
    (bundle / "harmonic.onnx").unlink()

    expected = f"'graphs': expected at most {size - 1} bytes in all graphs together, found {size};"
    with pytest.raises(BundleError, match=expected):
        load_character(bundle, ENGINES, max_bytes=size - 1)


def test_a_bundle_that_does_not_load_is_set_aside_and_the_others_are_served(tmp_path: Path) -> None:
    write_bundle(tmp_path, id="ada").rename(tmp_path / "ada")
    write_bundle(tmp_path, id="bob").rename(tmp_path / "bob")
    (tmp_path / "bob" / "harmonic.onnx").write_bytes(b"half of a graph")
    (tmp_path / "eve").mkdir()
    (tmp_path / "eve" / "character.json").write_text("{")

    with log_book() as book:
        assert list(load_characters(tmp_path, ENGINES)) == ["ada"]

    aside = {entry["character"]: entry["message"] for entry in book.of("character_set_aside")}
    assert aside.keys() == {"bob", "eve"}
    assert "harmonic.onnx: expected" in aside["bob"]


@pytest.mark.parametrize("names", [("ada", "bob"), ("hina", "mei")])
def test_the_first_character_and_those_of_the_service_must_load(
    names: tuple[str, str], tmp_path: Path
) -> None:
    for name in names:
        write_bundle(tmp_path, id=name).rename(tmp_path / name)
    broken = names[0] if names[0] == "ada" else names[1]
    (tmp_path / broken / "harmonic.onnx").write_bytes(b"half of a graph")

    with pytest.raises(BundleError, match=r"harmonic\.onnx: expected"):
        load_characters(tmp_path, ENGINES)
