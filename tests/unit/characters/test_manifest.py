from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from shared.characters.manifest import (
    MAX_MANIFEST_BYTES,
    CharacterManifest,
    ManifestError,
    parse_manifest,
    read_manifest,
    read_manifests,
)
from shared.characters.manifest_schema import render_schema
from tests.support.pipes import a_pipe
from tests.unit.graphs.bundles import manifest

FOLDER = Path("tester")
SCHEMA_FILE = Path(__file__).parents[3] / "characters/character.schema.json"
ORIGIN = {
    "source": "https://example.org/voice.pth",
    "author": "Somebody",
    "date": "2026-11-22",
    "sha256": "a" * 64,
    "tool": "RVC 2.3",
    "epoch": 300,
}


def parsed(said: object) -> CharacterManifest:
    return parse_manifest(json.dumps(said).encode(), FOLDER)


def refusal(said: object) -> str:
    with pytest.raises(ManifestError) as error:
        parsed(said)
    return str(error.value)


def changed(path: str, value: object) -> dict[str, Any]:
    """Change one field of a right manifest; `...` removes it."""
    said = copy.deepcopy(manifest())
    *parents, name = path.split(".")
    place = said
    for parent in parents:
        place = place[parent]
    if value is ...:
        del place[name]
    else:
        place[name] = value
    return said


def test_a_valid_manifest_is_read_completely() -> None:
    said = parsed(manifest())
    assert said.id == "tester"
    assert (said.name.ja, said.name.en) == ("テスター", "Tester")
    assert said.graphs["harmonic"].file == "harmonic.onnx"
    assert said.pitch is not None
    assert said.pitch.policy == "auto"
    assert said.limits.max_seconds == 600
    assert said.licence.spdx == "MIT"
    assert said.preview.portrait is None
    assert said.settings == {}
    assert said.folder == FOLDER
    assert (said.takes, said.origin, said.uses, said.options) == ("both", None, None, {})


def test_a_manifest_may_say_where_a_voice_comes_from_and_what_it_may_be_used_for() -> None:
    said = parsed(
        manifest(
            origin=ORIGIN,
            uses={"commercial": True, "redistribution": False},
            takes="speech",
            options={"index": {"rate": 0.5}, "styles": ["calm", "glad"]},
        )
    )

    assert said.origin is not None
    assert said.origin.model_dump(exclude_none=True) == ORIGIN
    assert said.uses is not None
    assert (said.uses.commercial, said.uses.redistribution, said.uses.adult) == (True, False, None)
    assert (said.takes_speech, said.takes_text) == (True, False)
    assert said.options == {"index": {"rate": 0.5}, "styles": ["calm", "glad"]}


@pytest.mark.parametrize(
    ("changes", "languages"),
    [
        ({}, ("ja", "en")),
        ({"text": {"engine": "kokoro"}}, ("ja", "en", "es", "it", "pt")),
        ({"languages": ["en", "ja"]}, ("en", "ja")),
        ({"languages": ["ja"]}, ("ja",)),
        ({"engine": "style_bert_vits2"}, ("ja",)),
        ({"takes": "speech"}, ()),
    ],
)
def test_a_character_speaks_the_languages_of_its_manifest_or_its_engine(
    changes: dict[str, Any], languages: tuple[str, ...]
) -> None:
    assert parsed(manifest(**changes)).text_languages == languages


def test_a_manifest_is_never_changed() -> None:
    said = parsed(manifest(settings={"gain": 2}, options={"a": 1}))

    with pytest.raises(ValidationError, match="frozen"):
        said.credit = "Somebody else"
    for mapping in (said.graphs, said.settings, said.options):
        with pytest.raises(TypeError):
            mapping["new"] = None  # type: ignore[index]


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("id", ..., "field 'id': expected a value, found nothing."),
        ("languages", ["en"], """field 'languages': expected ["ja"], or "ja" and some of"""),
        ("id", "Mei!", "field 'id': expected lower-case letters, digits and hyphens after a"),
        ("name", "Mei", "field 'name': expected an object, found \"Mei\"."),
        ("name.ja", "", "field 'name.ja': expected a text of 1 to 64 characters, found \"\"."),
        ("credit", "\x1b[2J", r"field 'credit': expected a text without control characters"),
        ("name.fr", "Mei", "field 'name.fr': expected only the fields 'ja', 'en', found \"fr\"."),
        ("graphs", {}, "field 'graphs': expected 1 to 8 graphs, found 0."),
        ("pitch", [1], "field 'pitch': expected an object, found a list."),
        ("graphs.harmonic.bytes", 10**12, "field 'graphs.harmonic.bytes': expected a whole number"),
        ("limits.max_seconds", -1, "field 'limits.max_seconds': expected a number from 0 to 3600"),
        ("licence.text", " ", "field 'licence.text': expected a text of 1 to 30000 characters"),
        ("schema_version", 2, "expected a whole number from 1 to 1, found 2."),
        ("sample_rate", 24_000.5, "expected a whole number from 8000 to 96000"),
        ("graphs.harmonic.file", "../a.onnx", "field 'graphs.harmonic.file': expected the plain"),
        ("graphs.harmonic.sha256", "A" * 64, "expected 64 lower-case hexadecimal digits"),
        ("pitch.median_hz", 900, "field 'pitch.median_hz': expected a number from 150 to 700"),
        ("pitch.policy", 25, "field 'pitch.policy': expected \"auto\" or semitones from -24 to 24"),
        ("licence.url", "javascript:alert(1)", "field 'licence.url': expected an https address"),
        ("contact", "nobody", "field 'contact': expected an https or mailto address"),
        ("preview.colour", "red", "field 'preview.colour': expected a colour as #rrggbb"),
        ("preview.portrait", "a/b.svg", "field 'preview.portrait': expected the plain name"),
        ("settings", {"deep": {}}, "field 'settings.deep': expected a text, a number or true or"),
        ("takes", "song", 'field \'takes\': expected "speech", "text" or "both", found "song".'),
        ("origin", {"date": "May 2026"}, "field 'origin.date': expected a date as YYYY-MM-DD"),
        ("uses", {"commercial": "yes"}, "field 'uses.commercial': expected true or false"),
        ("speaker", 3, "field 'speaker': expected only the fields 'schema_version', 'id',"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_expected_and_found(
    path: str, value: object, sentence: str
) -> None:
    said = refusal(changed(path, value))
    assert said.startswith("character.json: ")
    assert sentence in said
    assert said.endswith(".")


def test_lines_and_a_licences_own_characters_are_taken() -> None:
    said = parsed(changed("licence.text", "Page 1\x0cPage 2"))
    assert said.licence.text == "Page 1\x0cPage 2"
    assert parsed(changed("credit", "Voice: A\nPortrait: B")).credit == "Voice: A\nPortrait: B"


def test_a_field_of_any_name_is_refused_in_one_short_line() -> None:
    said = refusal(changed("graphs", {"\n" + "x" * 9_000: 5}))

    assert "field 'graphs.\\nxxx" in said
    assert len(said) < 300
    assert "\n" not in said


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "expected JSON in UTF-8"),
        (b"[]", "character.json: expected an object, found a list."),
        (b'{"id": 1, "id": 2}', "field 'id': expected once, found again."),
        (b'{"a\\nb": 1, "a\\nb": 2}', r"field 'a\nb': expected once, found again."),
        (b'{"sample_rate": NaN}', "expected finite numbers, found NaN."),
        (b'{"settings": {"gain": 1e999}}', "expected finite numbers, found 1e999."),
        (b'{"sample_rate": ' + b"9" * 5_000 + b"}", "expected JSON in UTF-8"),
        (b'{"credit": "\\ud800"}', "expected JSON in UTF-8"),
        (b"[" * 60_000, "expected JSON in UTF-8"),
        (b" " * (MAX_MANIFEST_BYTES + 1), "expected at most 65536 bytes, found more."),
    ],
)
def test_a_file_that_is_not_a_manifest_is_refused(content: bytes, sentence: str) -> None:
    with pytest.raises(ManifestError) as error:
        parse_manifest(content, FOLDER)
    assert sentence in str(error.value)


def test_a_manifest_that_is_missing_is_refused_and_a_pipe_is_not_waited_for(
    tmp_path: Path,
) -> None:
    with pytest.raises(ManifestError, match="expected a readable file"):
        read_manifest(tmp_path)
    with a_pipe(tmp_path / "character.json"), pytest.raises(ManifestError, match="something else"):
        read_manifest(tmp_path)


def write(folder: Path, **changes: Any) -> None:
    folder.mkdir()
    (folder / "character.json").write_text(json.dumps(manifest(**changes)), "utf-8")


def test_the_manifests_of_a_folder_are_read_the_built_in_ones_first(tmp_path: Path) -> None:
    for name in ("zoe", "ada", "ned", "mei"):
        write(tmp_path / name, id=name)
    manifests = read_manifests(tmp_path)
    assert list(manifests) == ["mei", "ned", "ada", "zoe"]
    assert manifests["ada"].folder == tmp_path / "ada"


def test_a_folder_without_characters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="at least one character bundle"):
        read_manifests(tmp_path)


def test_the_schema_for_editors_is_what_the_command_writes() -> None:
    command = "python -m shared.characters.manifest_schema > characters/character.schema.json"

    assert SCHEMA_FILE.read_text("utf-8") == render_schema(), command


def test_a_manifest_that_is_wrong_is_set_aside_unless_it_is_the_first(tmp_path: Path) -> None:
    write(tmp_path / "ada", id="ada")
    write(tmp_path / "bob", id="eve")
    # An import that is under way writes here.
    write(tmp_path / ".importing-x1", id="bob")

    assert list(read_manifests(tmp_path)) == ["ada"]

    write(tmp_path / "aaa", id="eve")
    with pytest.raises(ManifestError, match="expected the folder's name 'aaa', found 'eve'"):
        read_manifests(tmp_path)
