from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from shared.characters.manifest import read_manifest
from tests.unit.graphs.bundles import write_bundle
from tools.importing.__main__ import main as run
from tools.importing.character_list import main

if TYPE_CHECKING:
    from pathlib import Path


def never_asked(question: str) -> str:
    raise AssertionError(question)


@pytest.fixture
def characters(tmp_path: Path) -> Path:
    write_bundle(tmp_path, id="ada").rename(tmp_path / "ada")
    return tmp_path


@pytest.mark.parametrize(("name", "shown"), [("[/b]", "[/b]"), ("Ada\x1b[2J", "does not load")])
def test_a_list_shows_names_as_they_are_and_refuses_those_that_steer_the_terminal(
    characters: Path, capsys: pytest.CaptureFixture[str], name: str, shown: str
) -> None:
    path = characters / "ada" / "character.json"
    manifest = json.loads(path.read_text("utf-8"))
    manifest["name"]["en"] = name
    path.write_text(json.dumps(manifest), "utf-8")

    assert run(["list", "--into", str(characters)]) == 0

    said = capsys.readouterr().out
    assert "ada" in said
    assert shown in said
    assert "\x1b[2J" not in said


def test_a_name_is_changed_and_nothing_else(characters: Path) -> None:
    before = json.loads((characters / "ada" / "character.json").read_text())

    assert main(["set", "ada", "--name", "Ada B.", "--into", str(characters)], never_asked) == 0

    after = json.loads((characters / "ada" / "character.json").read_text())
    assert after == before | {"name": before["name"] | {"en": "Ada B."}}


def test_a_portrait_is_drawn_of_a_picture(
    characters: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (characters / "ada" / "character.json").read_bytes()
    wrong = str(characters / "ada" / "character.json")
    assert main(["set", "ada", "--portrait", wrong, "--into", str(characters)], never_asked) == 1
    assert "expected a picture" in capsys.readouterr().err
    assert (characters / "ada" / "character.json").read_bytes() == before
    picture = io.BytesIO()
    Image.new("RGB", (40, 30), "#aa3300").save(picture, "PNG")
    (tmp_path / "face.png").write_bytes(picture.getvalue())
    face = str(tmp_path / "face.png")

    assert main(["set", "ada", "--portrait", face, "--into", str(characters)], never_asked) == 0

    assert read_manifest(characters / "ada").preview.portrait == "portrait.svg"
    assert b"<svg" in (characters / "ada" / "portrait.svg").read_bytes()


def test_a_renamed_character_has_its_new_id_in_both_places(characters: Path) -> None:
    assert main(["rename", "ada", "grace", "--into", str(characters)], never_asked) == 0

    assert not (characters / "ada").exists()
    assert read_manifest(characters / "grace").id == "grace"


@pytest.mark.parametrize("new", ["Not An Id", "mei", "encoders"])
def test_an_id_that_is_wrong_or_taken_is_refused(
    characters: Path, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bundle(characters, id="mei").rename(characters / "mei")

    assert main(["rename", "ada", new, "--into", str(characters)], never_asked) == 1

    assert capsys.readouterr().err
    assert read_manifest(characters / "ada").id == "ada"


def test_a_character_is_deleted_after_a_yes_alone(characters: Path) -> None:
    command = ["delete", "ada", "--into", str(characters)]

    assert main(command, lambda _question: "n") == 0
    assert (characters / "ada").is_dir()

    assert main(command, lambda _question: "y") == 0
    assert not (characters / "ada").exists()


def test_without_a_terminal_nothing_is_deleted_and_one_sentence_says_why(
    characters: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def nobody(_question: str) -> str:
        raise EOFError

    assert main(["delete", "ada", "--into", str(characters)], nobody) == 1

    assert capsys.readouterr().err.endswith("expected an answer, found no terminal; add --yes.\n")
    assert (characters / "ada").is_dir()


@pytest.mark.parametrize("command", [["delete", "mei"], ["rename", "mei", "my"], ["set", "mei"]])
def test_the_characters_of_the_service_stay_as_they_are(
    characters: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_bundle(characters, id="mei").rename(characters / "mei")

    assert main([*command, "--into", str(characters)], never_asked) == 1

    assert "comes with the service" in capsys.readouterr().err
    assert (characters / "mei").is_dir()


@pytest.mark.parametrize("character", ["nobody", "../ada"])
def test_an_unknown_character_is_answered_with_those_that_there_are(
    characters: Path, character: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["delete", character, "--into", str(characters)], never_asked) == 1

    assert "expected one of ada" in capsys.readouterr().err
