from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from shared.characters.manifest import read_manifest
from tests.unit.bundles.test_consent import ANSWERS
from tests.unit.importing.encoders import encoder, pitch_model
from tests.unit.importing.indexes import Index
from tests.unit.importing.voices import Kind, voice_bytes
from tools.bundles.consent import EXAMPLES, QUESTIONS
from tools.bundles.files import VoiceFileError
from tools.bundles.sample import Sample
from tools.bundles.trial import TrialReport
from tools.importing.importer import Trials, import_command

if TYPE_CHECKING:
    from pathlib import Path

REPORT = TrialReport("Ada", "rvc", 1.0, 10.0, 0.25, 90.0)


def no_answer(question: str) -> str:
    raise AssertionError(question)


def measured(folder: Path, threads: int) -> TrialReport:
    assert (folder / "character.json").is_file()
    assert threads in {1, 2}
    return REPORT


def sampled(folder: Path, recording: Path, into: Path) -> Sample:
    assert (folder / "character.json").is_file()
    assert recording.is_file()
    return Sample(into / "ada.wav", into / "ada.png")


class OwnerFolder:
    def __init__(self, folder: Path, brought: Path | None = None) -> None:
        self.folder = folder
        self.characters = folder / "characters"
        self._brought = brought

    def file(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def run(self, *arguments: str, measuring: Any = measured) -> int:
        return import_command(
            [*arguments, "--into", str(self.characters)], no_answer, Trials(measuring, sampled)
        )

    def bring_encoder(self, *widths: int) -> int:
        return self.run("encoder", self.file("contentvec.onnx", encoder(widths or (256, 768))))

    def have_encoder(self) -> None:
        """Have what `bring_encoder` leaves, without another process that tries the encoder."""
        assert self._brought is not None
        shutil.copytree(self._brought, self.characters)

    def bring_voice(
        self, *files: str, measuring: Any = measured, more: tuple[str, ...] = ()
    ) -> int:
        consent = self.file("consent.json", json.dumps(ANSWERS).encode())
        return self.run(
            "import", *files, "--as", "ada", "--consent", consent, *more, measuring=measuring
        )


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    desk = OwnerFolder(tmp_path_factory.mktemp("desk"))
    assert desk.bring_encoder() == 0
    return desk.characters


@pytest.fixture
def desk(tmp_path: Path, brought: Path) -> OwnerFolder:
    return OwnerFolder(tmp_path, brought)


def test_a_voice_with_encoder_and_index_becomes_a_character(
    desk: OwnerFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.have_encoder()
    voice = voice_bytes(Kind(channels=16))
    files = {"ada.pth": voice, "added.index": Index(width=256, sizes=(5, 4)).content()}
    wishes = ("--name", "Ada", "--median-hz", "210")

    ended = desk.bring_voice(*(desk.file(*each) for each in files.items()), more=wishes)

    assert ended == 0
    manifest = read_manifest(desk.characters / "ada")
    assert (manifest.engine, manifest.sample_rate, manifest.name.en) == ("rvc", 40_000, "Ada")
    assert set(manifest.graphs) == {"content", "synthesizer", "retrieval"}
    assert manifest.origin is not None
    assert manifest.origin.sha256 == hashlib.sha256(voice).hexdigest()
    assert (manifest.origin.tool, manifest.origin.epoch) == ("RVC", 12)
    assert manifest.uses is not None
    assert (manifest.uses.commercial, manifest.uses.politics) == (True, False)
    assert manifest.licence.spdx == "CC-BY-4.0"
    assert manifest.consent.startswith("Ada Example: Ada agreed in writing")
    assert manifest.settings == {"content_output": "embed0", "speaker": 0, "unvoiced": "zero"}
    assert manifest.pitch is not None
    assert (manifest.pitch.policy, manifest.pitch.median_hz) == ("auto", 210)
    content = (desk.characters / "ada" / "synthesizer.onnx").read_bytes()
    said = manifest.graphs["synthesizer"]
    assert (len(content), hashlib.sha256(content).hexdigest()) == (said.bytes, said.sha256)
    shared = desk.characters / "encoders" / f"{manifest.graphs['content'].sha256}.onnx"
    assert shared.stat().st_size == manifest.graphs["content"].bytes
    assert not list(desk.characters.glob(".*"))
    shown = capsys.readouterr().out
    for told in (
        "RVC voice, HiFi-GAN: v1",
        "9 vectors of 256",
        "1 thread",
        "2 threads",
        "0.250",
        "ada.wav",
    ):
        assert told in shown


def test_an_encoder_of_eight_bits_is_told_how_far_it_is_off(
    desk: OwnerFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.run("encoder", desk.file("contentvec.onnx", encoder()), "--int8") == 0

    assert "features differ by" in capsys.readouterr().out
    (stored,) = (desk.characters / "encoders").glob("*.json")
    assert json.loads(stored.read_text())["origin"] == "contentvec.onnx, 8 bits"


def test_a_pitch_model_is_added_and_used(
    desk: OwnerFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.have_encoder()
    content = pitch_model(219.5)
    sha256 = hashlib.sha256(content).hexdigest()

    model = desk.file("rmvpe.onnx", content)
    assert desk.run("encoder", model, "--int8") == 1
    assert "rmvpe.onnx: expected a content encoder for --int8" in capsys.readouterr().err
    assert desk.run("encoder", model) == 0
    assert "is heard as 219.5 Hz" in capsys.readouterr().out
    voice = desk.file("ada.pth", voice_bytes())
    assert desk.bring_voice(voice, more=("--pitch-model", sha256[:12])) == 0

    graphs = read_manifest(desk.characters / "ada").graphs
    assert set(graphs) == {"content", "pitch", "synthesizer"}
    assert (graphs["pitch"].sha256, graphs["pitch"].bytes) == (sha256, len(content))


def test_everything_is_asked_for_if_no_file_answers(desk: OwnerFolder) -> None:
    desk.have_encoder()
    asked = []

    def ask(question: str) -> str:
        asked.append(question)
        name = next(key for key, value in QUESTIONS.items() if value == question)
        return EXAMPLES.get(name, "no") if name != "licence" else "CC-BY-4.0"

    voice = desk.file("ada.pth", voice_bytes())
    arguments = ["import", voice, "--as", "ada", "--into", str(desk.characters)]
    samples = ["--samples-into", str(desk.characters / "samples")]

    # The last answer is that it is the voice of a minor.
    assert import_command([*arguments, *samples], ask, Trials(measured, sampled)) == 1
    assert len(asked) == 12
    assert not (desk.characters / "ada").exists()


@pytest.mark.parametrize("reason", [VoiceFileError("found silence."), KeyboardInterrupt()])
def test_a_character_whose_trial_does_not_end_well_does_not_stay(
    desk: OwnerFolder, capsys: pytest.CaptureFixture[str], reason: BaseException
) -> None:
    def fail(_folder: Path, _threads: int) -> TrialReport:
        raise reason

    desk.have_encoder()

    with suppress(KeyboardInterrupt):
        assert desk.bring_voice(desk.file("ada.pth", voice_bytes()), measuring=fail) == 1
        assert "found silence" in capsys.readouterr().err
    assert not (desk.characters / "ada").exists()


def test_two_imports_at_once_do_not_disturb_each_other(desk: OwnerFolder) -> None:
    desk.have_encoder()
    other = desk.characters / ".importing-of-another"
    other.mkdir()
    (other / "half").touch()

    assert desk.bring_voice(desk.file("ada.pth", voice_bytes())) == 0

    assert (other / "half").exists()


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 55028480\n"


def zipped(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return content.getvalue()


@pytest.mark.parametrize(
    ("files", "more", "message"),
    [
        ({"ada.wav": b"x"}, (), "ada.wav: expected a .pth or an .onnx, found another kind."),
        ({"ada.pth": b""}, (), "ada.pth: expected a voice, found an empty file; download it again"),
        ({"ada.onnx": LFS}, (), "ada.onnx: expected a voice, found a pointer of Git LFS"),
        ({"a.aivmx": b"\n<!DOCTYPE html>"}, (), "a.aivmx: expected a voice, found a web page;"),
        ({"ada.pth": zipped("ada.pth", "ada.index")}, (), "ada.pth: expected a voice, found an ar"),
        (
            {"ada.pth": voice_bytes(), "ada.index": Index(width=768).content()},
            (),
            "ada.index: expected vectors of 256 numbers as the voice takes them, found 768",
        ),
        (
            {"a.pth": b"a", "b.pth": b"b"},
            (),
            "expected one voice (.pth or .onnx) and at most one .index, or one .aivmx, found a",
        ),
        ({"ada.pth": voice_bytes()}, ("--speaker", "3"), "--speaker 3: expected 0 to 2"),
        ({"ada.pth": voice_bytes()}, ("--encoder", "00000000"), "expected one encoder of 256"),
        (
            {"ada.pth": voice_bytes()},
            ("--as", "../ada"),
            "character.json: field 'id': expected lower-case letters",
        ),
        ({"ada.pth": voice_bytes()}, ("--encoder", "00"), "--encoder 00: expected at least 6"),
        ({"ada.pth": voice_bytes()}, ("--as", "encoders"), "--as encoders: expected a new id"),
        ({"ada.pth": voice_bytes()}, ("--portrait", "/no.png"), "no.png: expected a readable file"),
    ],
)
def test_what_cannot_become_a_character_is_refused_in_one_sentence(
    desk: OwnerFolder,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, bytes],
    more: tuple[str, ...],
    message: str,
) -> None:
    desk.have_encoder()
    capsys.readouterr()

    ended = desk.bring_voice(*(desk.file(*each) for each in files.items()), more=more)

    said = capsys.readouterr().err
    assert ended == 1
    assert said.startswith(message)
    assert said.count("\n") == 1
    assert [each.name for each in desk.characters.iterdir()] == ["encoders"]


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ({"embedder_model": "japanese-hubert-base"}, True),
        ({"embedder_name": "hubert_base", "embedder_output_layer": 12}, True),
        ({"embedder_name": "hubert_base", "embedder_output_layer": 9}, False),
        ({}, False),
    ],
)
def test_a_need_that_is_not_met_is_told(
    desk: OwnerFolder, capsys: pytest.CaptureFixture[str], said: dict[str, Any], *, is_told: bool
) -> None:
    desk.have_encoder()

    assert desk.bring_voice(desk.file("ada.pth", voice_bytes(**said))) == 0

    shown = capsys.readouterr()
    assert ("warning: the voice says that it needs" in shown.err) == is_told
    assert ("warning" in shown.out) == is_told


def test_of_several_encoders_one_is_chosen(
    desk: OwnerFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    voice = desk.file("ada.pth", voice_bytes())
    assert desk.bring_voice(voice) == 1
    assert "nox -s character -- encoder FILE" in capsys.readouterr().err
    contents = [encoder((256,), seed=seed) for seed in (1, 2)]
    for number, content in enumerate([*contents, contents[1]]):
        desk.run("encoder", desk.file(f"e{number}.onnx", content))
    assert len(list((desk.characters / "encoders").glob("*.onnx"))) == 2

    assert desk.bring_voice(voice) == 1
    assert "choose one with --encoder" in capsys.readouterr().err

    wanted = hashlib.sha256(contents[1]).hexdigest()
    assert desk.bring_voice(voice, more=("--encoder", wanted[:8])) == 0
    assert read_manifest(desk.characters / "ada").graphs["content"].sha256 == wanted
