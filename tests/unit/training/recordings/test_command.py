"""From a folder to a bundle, in small."""

import datetime as dt
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from shared.characters.manifest import read_manifest
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from tests.support.examples import commands
from tests.support.without_linux import run_without_linux
from tests.unit.training.recordings.conftest import CONSENT
from tools.bundles.files import VoiceFileError
from tools.training.judges.measures import SpeakerEncoder
from tools.training.recordings import selection
from tools.training.recordings.bundle import colour_of
from tools.training.recordings.command import main, measure
from tools.training.recordings.consent_check import WITHOUT
from tools.training.recordings.questions import TrainingFolders, clear
from tools.training.recordings.selection import find_others
from tools.training.recordings.work_folder import RecordingsError

ROOT = Path(__file__).parents[4]
RATE = 16_000
Floats = NDArray[np.float32]
WriteWav = Callable[[Path, Floats, int], None]


def nobody(question: str) -> str:
    raise VoiceFileError(f"expected an answer, found none: {question}")


def run(folder: Path, *arguments: str, ask: Callable[[str], str] = nobody) -> int:
    places = TrainingFolders(folder / "characters", ROOT / "characters" / "ned", folder / "work")
    recordings = ["--recordings", str(folder / "recordings")]
    return main([*recordings, *arguments], places, ask, SpeakerEncoder())


@pytest.fixture
def folder(tmp_path: Path, woman: Floats, man: Floats, write_wav: WriteWav) -> Path:
    for index, part in enumerate(woman[: 145 * RATE].reshape(5, -1)):
        write_wav(tmp_path / "recordings" / f"{index}.wav", part, RATE)
    for index in range(2):
        write_wav(tmp_path / "others" / f"{index}.wav", man[index * 8 * RATE :][: 8 * RATE], RATE)
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
    given = ["--consent", "consent.json", "--others", "others", "--portrait", "ada.png"]
    given.append("--no-spoken-consent")
    Image.new("RGB", (300, 200), "#cc5500").save(folder / "ada.png")
    places = TrainingFolders(folder / "characters", ROOT / "characters" / "ned", folder / "work")
    assert (
        main(["--recordings", *arguments, "--quick", *given], places, nobody, SpeakerEncoder()) == 0
    )
    bundle = folder / "characters" / "ada"
    assert {file.name for file in bundle.iterdir()} == {
        "character.json", "harmonic.onnx", "harmonic_stream.onnx", "MODEL_CARD.md",
        "portrait.svg",
    }  # fmt: skip
    assert sum(file.stat().st_size for file in bundle.iterdir()) < 5_000_000
    manifest = read_manifest(bundle)
    assert manifest.credit == CONSENT["credit"]
    assert manifest.consent == f"Ada Example: Ada agreed in writing. {WITHOUT}"
    assert manifest.uses is not None
    assert manifest.uses.redistribution is False
    assert manifest.origin is not None
    assert manifest.origin.source == CONSENT["source"]
    engine = build_engine(load_character(bundle, ENGINES), SessionSettings())
    wave = np.random.default_rng(1).standard_normal(RATE).astype(np.float32) * 0.1
    assert len(engine.convert(wave, RATE, ConversionOptions())) == engine.sample_rate
    assert "likeness" in (bundle / "MODEL_CARD.md").read_text()
    listen = folder / "work" / "ada" / "listen"
    assert "data:audio/wav" in (listen / "listen.html").read_text()
    assert len(list(listen.glob("sample-*.wav"))) >= 1
    output = capsys.readouterr().out
    assert "used: 2:" in output
    assert "left" in output
    assert "nox -s demo -- --character ada" in output
    assert manifest.preview.portrait == "portrait.svg"
    assert "nox -s train -- --clear ada" in output
    assert clear(["ada"], folder / "work") == 0
    assert not (folder / "work" / "ada").exists()
    assert bundle.is_dir()


@pytest.mark.training
def test_a_character_is_trained_without_the_means_that_only_linux_has(folder: Path) -> None:
    given = {"--as": "ada", "--recordings": "recordings", "--others": "others"}
    given |= {"--consent": "consent.json", "--work": "work", "--into": "characters"}

    trained = run_without_linux(
        folder, "tools.training", "--quick", "--no-spoken-consent", *itertools.chain(*given.items())
    )

    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert read_manifest(folder / "characters" / "ada").id == "ada"


def test_characters_without_a_portrait_differ_in_their_colours() -> None:
    colours = {colour_of(f"own-{number}") for number in range(100)}
    assert len(colours) == 9
    assert all(re.fullmatch("#[0-9a-f]{6}", each) for each in colours)


class AtTheTerminal:
    """Speaks the sentence that is shown, with one voice after the other, and saves it."""

    def __init__(self, file: Path, *voices: str) -> None:
        self._file = file
        self._voices = list(voices)

    def __call__(self, question: str) -> str:
        assert self._file.name in question
        sentence = next(line for line in question.splitlines() if line.startswith("    "))
        flite = shutil.which("flite")
        assert flite is not None
        voice = self._voices.pop(0)
        subprocess.run([flite, "-voice", voice, "-t", sentence, "-o", str(self._file)], check=True)
        return ""


@pytest.mark.training
def test_the_owner_speaks_the_sentence_and_the_character_says_so_and_nobody_else_can(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = AtTheTerminal(folder / "recordings" / "spoken-consent.wav", "rms", "slt")
    given = ["--consent", str(folder / "consent.json"), "--others", str(folder / "others")]
    arguments = ["--as", "ada", "--quick", "--language", "en", *given]

    assert run(folder, *arguments, ask=asked) == 1
    said = capsys.readouterr().err
    assert "expected the voice of the recordings, found another one" in said
    assert said.endswith(" [consent_refused]\n")
    assert not (folder / "characters" / "ada").exists()

    (folder / "recordings" / "spoken-consent.wav").unlink()
    assert run(folder, *arguments, ask=asked) == 0
    assert "another voice" not in capsys.readouterr().out
    owner, _, consent = str(read_manifest(folder / "characters" / "ada").consent).partition(": ")
    assert owner == "Ada Example"
    today = dt.datetime.now().astimezone().date()
    assert f"Spoken consent of {today}: in the voice of the recordings (likeness" in consent
    words = "a recogniser heard" if find_spec("faster_whisper") else "words not checked"
    assert words in consent
    assert consent in (folder / "characters" / "ada" / "MODEL_CARD.md").read_text("utf-8")


def test_a_picture_that_is_none_is_refused_before_the_training(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ada.png").write_text("no picture")
    given = ("--consent", str(folder / "consent.json"), "--portrait", str(folder / "ada.png"))
    assert run(folder, "--as", "ada", *given) == 1
    assert capsys.readouterr().err.startswith("ada.png: expected a picture")


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


def test_without_consent_nothing_is_trained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "--as", "ada") == 1
    assert "Who owns the voice" in capsys.readouterr().err
    assert not (folder / "characters").exists()


def test_the_questions_come_before_the_packages_of_the_training(folder: Path) -> None:
    without = "import sys; sys.modules.update(torch=None, soundfile=None, scipy=None); "
    ask = "from tools.training.recordings.questions import main; sys.exit(main())"
    given = ["--recordings", "recordings", "--as", "ada", "--consent", "consent.json"]
    given += ["--work", "work", "--into", "characters", "--language", "de"]

    def run_with(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", without + ask, *arguments]
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, check=False
        )

    asked = run_with(*given)
    assert asked.returncode == 1
    assert "Heute ist der" in asked.stderr
    (folder / "recordings" / "spoken-consent.wav").touch()
    assert run_with(*given).returncode == 0
    assert "--no-spoken-consent" in run_with("--help").stdout


def test_without_a_spoken_consent_nothing_is_trained_and_the_sentence_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--consent", str(folder / "consent.json"), "--language", "en")
    assert run(folder, "--as", "ada", *given) == 1
    assert "Today is" in capsys.readouterr().err
    assert not (folder / "characters").exists()


def test_what_a_training_keeps_lies_where_the_option_says(folder: Path) -> None:
    given = ("--consent", str(folder / "consent.json"), "--work", str(folder / "elsewhere"))
    assert run(folder, "--as", "ada", *given) == 1
    assert (folder / "elsewhere" / "ada.sentence.json").exists()
    assert not (folder / "work").exists()


def test_a_character_that_is_there_is_not_replaced(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "characters" / "ada").mkdir(parents=True)
    assert run(folder, "--as", "ada", "--consent", str(folder / "consent.json")) == 1
    assert "expected a new id" in capsys.readouterr().err


def test_a_folder_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recordings").mkdir()
    (tmp_path / "consent.json").write_text(json.dumps(CONSENT))
    given = ("--consent", str(tmp_path / "consent.json"), "--no-spoken-consent")
    assert run(tmp_path, "--as", "ada", *given) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_character_whose_training_kept_nothing_is_not_measured(tmp_path: Path) -> None:
    places = TrainingFolders(tmp_path, ROOT / "characters" / "ned", tmp_path / "work")
    with pytest.raises(RecordingsError, match=r"--character ada: expected .* found none"):
        measure("ada", places, SpeakerEncoder())


def test_without_a_folder_the_readers_that_come_along_are_the_others(
    tmp_path: Path, man: Floats, write_wav: WriteWav, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wav(tmp_path / "heard" / "26.wav", man[: 8 * RATE], RATE)
    write_wav(tmp_path / "strangers" / "367.wav", man[8 * RATE : 16 * RATE], RATE)
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
