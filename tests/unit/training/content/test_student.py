"""The small encoder for streams learns what the shared encoder hears, and becomes a graph."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from shared.characters.manifest import read_manifest
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from tests.unit.training.conftest import CHARACTERS, copy_bundle
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

SPEECH = sorted((CHARACTERS.parent / "tools" / "training" / "people" / "heard").glob("*.opus"))[:2]


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
    monkeypatch.setattr("tools.training.content.student._KEEP_EVERY", 4)
    monkeypatch.setattr("tools.training.content.student._WARM_UP", 3)
    monkeypatch.setattr("tools.training.content.student.BATCH", 8)
    teaching, progress = StudentTraining(lessons, 3), tmp_path / "progress.pt"

    def unexplained(student: Network) -> float:
        with torch.no_grad():
            return teaching.loss(student, 1_000_000)[1]

    before = unexplained(new_student())
    teach(new_student(), teaching, 6, progress)
    resumed = new_student()
    teach(resumed, teaching, 12, progress)

    assert torch.load(progress, weights_only=True)["step"] == 12
    assert unexplained(resumed) < 0.8 * before


def test_with_all_of_the_recording_known_a_crop_is_normalised_as_the_whole_is() -> None:
    network = Network(SIZE)
    power = torch.rand(1, 4 * CROP, BANDS, generator=torch.Generator().manual_seed(1)) + 0.1
    history = power[:, : 3 * CROP : 4]
    found = running_normalise(network, power[:, 3 * CROP :], history, torch.ones(1, 3 * CROP // 4))
    wanted = network.normalise(power)[:, 3 * CROP :]
    assert float((found - wanted).abs().mean()) < 0.05


@pytest.mark.filterwarnings("ignore")  # the exporter warns of its own deprecations
def test_a_character_gets_what_it_is_heard_with_while_somebody_speaks(tmp_path: Path) -> None:
    bundle, weights = copy_bundle("mei", tmp_path), tmp_path / "student.pt"
    (tmp_path / "encoders").unlink()  # as it gets one more
    shutil.copytree(CHARACTERS / "encoders", tmp_path / "encoders")
    torch.save(new_student().state_dict(), weights)

    digest = write_student(weights, tmp_path)
    make_live(bundle, digest)

    assert {CONTENT_STREAM, STREAM} <= set(read_manifest(bundle).graphs)
    assert (bundle / f"{STREAM}.onnx").stat().st_size < 100_000
    engine = build_engine(load_character(bundle, ENGINES), SessionSettings(threads=1))
    stream = engine.open_stream(16_000, ConversionOptions(seed=0))
    assert stream is not None
    noise = np.random.default_rng(1).standard_normal(16_000).astype(np.float32) * 0.1
    assert len(np.concatenate([stream.push(noise), stream.finish()])) == 24_000
    exported = onnx.load(tmp_path / "encoders" / f"{digest}.onnx")
    assert [one.domain for one in exported.opset_import] == [""]
    weights_of = {one.name: one for one in exported.graph.initializer}
    halved = {name for name, one in weights_of.items() if one.data_type == onnx.TensorProto.FLOAT16}
    assert len(halved) == 18
    # Nothing constant is left to compute but the widening of weights.
    constant = [one for one in exported.graph.node if set(one.input) <= weights_of.keys()]
    assert {one.op_type for one in constant} == {"Cast"}
    assert {name for one in constant for name in one.input} == halved
