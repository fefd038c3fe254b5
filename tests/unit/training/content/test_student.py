"""The small encoder for streams learns what the shared encoder hears, and becomes a graph."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from shared.characters.manifest import read_manifest
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from tools.training.content.graphs import CONTENT_STREAM, SIZE, STREAM, make_live, write_student
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.content.student import (
    CROP,
    VERSIONS,
    EncoderLesson,
    StudentTraining,
    lessons_of,
    new_student,
    running_normalise,
    teach,
)
from tools.training.decoder.features import BANDS
from tools.training.decoder.network import Network

ROOT = Path(__file__).parents[4]
CHARACTERS = ROOT / "characters"
SPEECH = sorted((ROOT / "tools" / "training" / "people" / "heard").glob("*.opus"))[:2]


@pytest.fixture(scope="module")
def lessons() -> list[EncoderLesson]:
    return list(lessons_of(SPEECH, SharedEncoder.of(CHARACTERS / "hina"), 1))


def test_a_lesson_has_versions_of_speech_and_what_is_heard_in_it(
    lessons: list[EncoderLesson],
) -> None:
    assert len(lessons) == len(SPEECH)
    for lesson in lessons:
        frames = len(lesson.content)
        assert 800 < frames < 1200
        assert lesson.content.shape == (frames, SIZE.content)
        assert [power.shape for power in lesson.powers] == [(frames, BANDS)] * (VERSIONS + 1)
        speaking = lesson.weight == 1
        assert 0.5 < speaking.mean() < 1
        assert np.abs(lesson.content[speaking].astype(np.float32).mean(0)).max() < 0.3


def test_a_student_learns_and_goes_on_where_it_was_stopped(
    lessons: list[EncoderLesson], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.training.content.student._KEEP_EVERY", 3)
    monkeypatch.setattr("tools.training.content.student._WARM_UP", 3)
    teaching, student, progress = (
        StudentTraining(lessons, 3),
        new_student(),
        tmp_path / "progress.pt",
    )
    with torch.no_grad():
        _, before = teaching.loss(student, 1_000_000)
    teach(student, teaching, 0.2, progress)
    first = torch.load(progress, weights_only=True)["step"]
    teach(student, teaching, 0.4, progress)
    with torch.no_grad():
        _, after = teaching.loss(student, 1_000_000)
    assert torch.load(progress, weights_only=True)["step"] > first
    assert after < 0.7 * before


def test_with_all_of_the_recording_known_a_crop_is_normalised_as_the_whole_is() -> None:
    network = Network(SIZE)
    power = torch.rand(1, 4 * CROP, BANDS, generator=torch.Generator().manual_seed(1)) + 0.1
    history = power[:, : 3 * CROP : 4]
    found = running_normalise(network, power[:, 3 * CROP :], history, torch.ones(1, 3 * CROP // 4))
    wanted = network.normalise(power)[:, 3 * CROP :]
    assert float((found - wanted).abs().mean()) < 0.05


@pytest.mark.filterwarnings("ignore")  # the exporter warns of its own deprecations
def test_a_character_gets_what_it_is_heard_with_while_somebody_speaks(tmp_path: Path) -> None:
    for name in ("mei", "encoders"):
        shutil.copytree(CHARACTERS / name, tmp_path / name)
    weights, bundle = tmp_path / "student.pt", tmp_path / "mei"
    torch.save(new_student().state_dict(), weights)

    make_live(bundle, write_student(weights, tmp_path))

    assert {CONTENT_STREAM, STREAM} <= set(read_manifest(bundle).graphs)
    assert (bundle / f"{STREAM}.onnx").stat().st_size < 100_000
    engine = build_engine(load_character(bundle, ENGINES), SessionSettings(threads=1))
    stream = engine.open_stream(16_000, ConversionOptions(seed=0))
    assert stream is not None
    noise = np.random.default_rng(1).standard_normal(16_000).astype(np.float32) * 0.1
    assert len(np.concatenate([stream.push(noise), stream.finish()])) == 24_000
