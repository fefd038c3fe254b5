"""From a folder to a bundle, in small."""

import datetime as dt
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shared.characters.consent import ConsentSentence
from shared.characters.manifest import read_manifest
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from tests.support.examples import commands
from tests.support.without_linux import run_without_linux
from tests.unit.training.conftest import CONSENT, RATE, Floats, speak, write_speech
from tools.bundles.files import VoiceFileError
from tools.training.judges.measures import SpeakerEncoder
from tools.training.recordings import selection
from tools.training.recordings.bundle import colour_of
from tools.training.recordings.command import main
from tools.training.recordings.consent_check import WITHOUT
from tools.training.recordings.questions import TrainingFolders, clear
from tools.training.recordings.selection import find_others

ROOT = Path(__file__).parents[4]


def nobody(question: str) -> str:
    raise VoiceFileError(f"expected an answer, found none: {question}")


def places_in(folder: Path) -> TrainingFolders:
    return TrainingFolders(folder / "characters", ROOT / "characters" / "mei", folder / "work")


def run(folder: Path, *arguments: str, ask: Callable[[str], str] = nobody) -> int:
    recordings = ["--recordings", str(folder / "recordings")]
    return main([*recordings, *arguments], places_in(folder), ask, SpeakerEncoder())


@pytest.fixture
def folder(tmp_path: Path, woman: Floats, man: Floats, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(selection, "LEAST_SECONDS", 15.0)
    for index, part in enumerate(woman[: 24 * RATE].reshape(3, -1)):
        write_speech(tmp_path / "recordings" / f"{index}.wav", part)
    for index in range(2):
        write_speech(tmp_path / "others" / f"{index}.wav", man[index * 4 * RATE :][: 4 * RATE])
    (tmp_path / "consent.json").write_text(json.dumps(CONSENT))
    return tmp_path


@pytest.mark.training
def test_a_folder_of_recordings_becomes_a_bundle_that_converts(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (arguments,) = commands((ROOT / "README.md").read_text("utf-8"), "nox -s train -- --recordings")
    assert arguments == ["my-recordings", "--as", "ada", "--listen"]
    (folder / "recordings").rename(folder / "my-recordings")
    monkeypatch.chdir(folder)
    # As the command sets it: a relative one would not be found from there.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Image.new("RGB", (300, 200), "#cc5500").save(folder / "ada.png")
    given = ["--consent", "consent.json", "--others", "others", "--portrait", "ada.png"]
    given = ["--recordings", *arguments, "--quick", "--no-spoken-consent", *given]

    assert main(given, places_in(folder), nobody, SpeakerEncoder()) == 0

    bundle = folder / "characters" / "ada"
    assert {file.name for file in bundle.iterdir()} == {
        "character.json", "harmonic.onnx", "harmonic_stream.onnx", "MODEL_CARD.md",
        "portrait.svg",
    }  # fmt: skip
    sizes = {file.name: file.stat().st_size for file in bundle.iterdir()}
    assert sum(sizes.values()) < 8_000_000
    assert sizes["harmonic.onnx"] > 6_000_000  # with the head
    assert sizes["harmonic_stream.onnx"] < 200_000  # without a decoder of its own
    manifest = read_manifest(bundle)
    assert manifest.credit == CONSENT["credit"]
    assert manifest.consent == f"Ada Example: Ada agreed in writing. {WITHOUT}"
    assert manifest.uses is not None
    assert manifest.uses.redistribution is False
    assert manifest.origin is not None
    assert manifest.origin.source == CONSENT["source"]
    assert manifest.preview.portrait == "portrait.svg"
    engine = build_engine(load_character(bundle, ENGINES), SessionSettings())
    wave = np.random.default_rng(1).standard_normal(RATE).astype(np.float32) * 0.1
    assert len(engine.convert(wave, RATE, ConversionOptions())) == engine.sample_rate
    assert "likeness" in (bundle / "MODEL_CARD.md").read_text()
    listen = folder / "work" / "ada" / "listen"
    assert "data:audio/wav" in (listen / "listen.html").read_text()
    assert len(list(listen.glob("own-*-converted.wav"))) >= 1
    output = capsys.readouterr().out
    assert "used: 0:2" in output
    assert "left" in output
    assert "nox -s demo -- --character ada" in output
    assert "nox -s train -- --clear ada" in output
    assert clear(["ada"], folder / "work") == 0
    assert not (folder / "work" / "ada").exists()
    assert bundle.is_dir()


class OwnerAtTheTerminal:
    """Speaks the sentence that is shown and saves it."""

    def __init__(self, file: Path, voice: str) -> None:
        self._file, self._voice = file, voice

    def __call__(self, question: str) -> str:
        assert self._file.name in question
        sentence = next(line for line in question.splitlines() if line.startswith("    "))
        speak(self._voice, sentence, self._file)
        return ""


@pytest.mark.training
def test_the_owner_alone_can_agree_and_a_training_needs_no_means_that_only_linux_has(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoken = folder / "recordings" / "spoken-consent.wav"
    given = {"--consent": "consent.json", "--others": "others", "--language": "en"}
    given |= {"--work": "work", "--as": "ada", "--into": "characters"}
    arguments = ["--quick", *itertools.chain(*given.items())]
    absolute = [str(folder / each) if (folder / each).exists() else each for each in arguments]
    absolute[absolute.index("work")] = str(folder / "work")

    assert run(folder, *absolute, ask=OwnerAtTheTerminal(spoken, "rms")) == 1
    said = capsys.readouterr().err
    assert "expected the voice of the recordings, found another one" in said
    assert said.endswith(" [consent_refused]\n")
    assert not (folder / "characters" / "ada").exists()

    sentence = ConsentSentence.from_json((folder / "work" / "ada.sentence.json").read_text("utf-8"))
    speak("slt", sentence.text, spoken)
    # It goes on with the speech that was selected.
    trained = run_without_linux(folder, "tools.training", "--recordings", "recordings", *arguments)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert "another voice" not in trained.stdout
    bundle = folder / "characters" / "ada"
    owner, _, consent = str(read_manifest(bundle).consent).partition(": ")
    assert owner == "Ada Example"
    today = dt.datetime.now().astimezone().date()
    assert f"Spoken consent of {today}: in the voice of the recordings (likeness" in consent
    words = "a recogniser heard" if find_spec("faster_whisper") else "words not checked"
    assert words in consent
    assert consent in (bundle / "MODEL_CARD.md").read_text("utf-8")


def test_characters_without_a_portrait_differ_in_their_colours() -> None:
    colours = {colour_of(f"own-{number}") for number in range(100)}
    assert len(colours) == 9
    assert all(re.fullmatch("#[0-9a-f]{6}", each) for each in colours)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Who owns the voice"),
        (["--consent", "consent.json", "--language", "en"], "Today is"),
        (["--consent", "consent.json", "--into", "."], "--as ada: expected a new id"),
        (
            ["--consent", "consent.json", "--portrait", "consent.json"],
            "consent.json: expected a picture",
        ),
        (["--consent", "consent.json", "--no-spoken-consent"], "minutes of usable speech"),
    ],
)
def test_what_is_missing_is_told_in_short_before_anything_is_trained(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "ada").mkdir()
    (folder / "recordings" / "1.wav").unlink()
    (folder / "recordings" / "2.wav").unlink()
    assert run(folder, "--as", "ada", *arguments) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") <= 5
    assert not (folder / "characters").exists()


def test_what_trainings_left_behind_is_listed_and_only_that_of_a_known_id_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "selection.pickle").write_bytes(bytes(3_000_000))
    assert clear([], tmp_path) == 0
    assert capsys.readouterr().out == f"ada: 3 MB in {tmp_path / 'ada'}\n"
    assert clear(["../ada", "ida"], tmp_path) == 1
    assert "--clear ida: expected one of ada" in capsys.readouterr().err
    assert (tmp_path / "ada").is_dir()


def test_the_questions_come_before_the_packages_of_the_training(folder: Path) -> None:
    without = "import sys; sys.modules.update(torch=None, soundfile=None, scipy=None); "
    ask = "from tools.training.recordings.questions import main; sys.exit(main())"
    given = ["--recordings", "recordings", "--as", "ada", "--consent", "consent.json"]
    given += ["--work", "elsewhere", "--into", "characters", "--language", "de"]

    def run_with(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", without + ask, *arguments]
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, check=False
        )

    asked = run_with(*given)
    assert asked.returncode == 1
    assert "Heute ist der" in asked.stderr
    assert (folder / "elsewhere" / "ada.sentence.json").exists()
    (folder / "recordings" / "spoken-consent.wav").touch()
    assert run_with(*given).returncode == 0


def test_without_a_folder_the_readers_that_come_along_are_the_others(
    tmp_path: Path, man: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_speech(tmp_path / "heard" / "26.wav", man[: 4 * RATE])
    write_speech(tmp_path / "strangers" / "367.wav", man[8 * RATE : 12 * RATE])
    monkeypatch.setattr(selection, "SHIPPED", tmp_path)
    found = find_others(None)
    assert {name: one[0].file for name, one in found.taught.items()} == {"en_26": "26.wav"}
    assert list(found.strangers) == ["367"]


def test_every_reader_that_comes_along_is_named() -> None:
    people = ROOT / "tools" / "training" / "people"
    text = (people / "README.md").read_text("utf-8")
    for part in ("heard", "strangers"):
        rows = text.split(f"## {part}")[1].split("## ")[0]
        named = {row.split("|")[1].strip() for row in rows.splitlines() if row.count("|") == 5}
        assert {file.stem for file in (people / part).iterdir()} == named - {"reader", "---"}
