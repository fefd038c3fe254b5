"""A short training learns, and goes on as if it had never been stopped."""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.unit.training.conftest import CHARACTERS, RATE, Floats
from tools.training.content.graphs import SIZE
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.content.speaker_vectors import AVERAGE, SpeakerVectors, begin
from tools.training.decoder.export import load_network
from tools.training.decoder.network import HarmonicVoice
from tools.training.recordings.comparison import synthesise
from tools.training.recordings.learner import (
    Lessons,
    Objective,
    Plan,
    Training,
    TrainingEffort,
    scale_of,
    whole,
)
from tools.training.recordings.lessons import Lesson, Preparation
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import TrainingProgress, WorkFolder


@pytest.fixture(scope="module")
def ear() -> SharedEncoder:
    torch.set_num_threads(1)
    return SharedEncoder.of(CHARACTERS / "mei")


@pytest.fixture(scope="module")
def lessons(ear: SharedEncoder, woman: Floats) -> list[Lesson]:
    parts = woman[: 16 * RATE].reshape(4, -1)
    utterances = [Utterance("she.wav", 0.0, part, RATE) for part in parts]
    return list(Preparation(ear, seed=1, versions=1).of(utterances))


@pytest.fixture(scope="module")
def other(ear: SharedEncoder, man: Floats) -> list[Lesson]:
    parts = man[: 8 * RATE].reshape(2, -1)
    utterances = [Utterance("he.wav", 0.0, part, RATE) for part in parts]
    return list(Preparation(ear, seed=2, versions=0).of(utterances))


def voices_of(*people: Sequence[Lesson]) -> SpeakerVectors:
    return begin({str(number): scale_of(one) for number, one in enumerate(people)})


def distance(voices: SpeakerVectors, lesson: Lesson, who: int = 0) -> float:
    batch = whole(lesson, who)
    with torch.no_grad():
        found: float = Objective()(voices, batch, batch.voicing)[1]
    return found


def test_the_owner_is_learnt_beside_others_who_are_remembered(
    ear: SharedEncoder, lessons: list[Lesson], other: list[Lesson], tmp_path: Path
) -> None:
    people = [lessons[:3], other[:1]]
    voices = voices_of(*people)
    assert torch.equal(*voices.vectors)

    def held_out() -> tuple[float, float]:
        return distance(voices, lessons[3]), distance(voices, other[1], who=1)

    before = held_out()
    effort, progress = TrainingEffort(Plan(steps=40, batch=4)), TrainingProgress(1, StringIO())
    training = Training(ear, effort, WorkFolder(tmp_path), progress)
    voices = training.teach(voices, Lessons(people, [1.0, 1.0], 1))

    after = held_out()
    assert after[0] < 0.85 * before[0]
    assert after[1] < before[1]
    with np.load(AVERAGE) as kept:
        known = kept["speaker.weight"].astype(np.float32)
    usual = float(np.median(np.linalg.norm(known - known.mean(0), axis=1)))
    one, another = voices.vectors.detach()
    assert float((one - another).norm()) > 0.2 * usual


def test_a_reader_that_the_average_voice_knows_begins_as_that_reader(lessons: list[Lesson]) -> None:
    scale = scale_of(lessons)
    known, unknown, another = begin({"en_26": scale, "ada": scale, "eve": scale}).vectors.detach()
    assert torch.equal(unknown, another)
    assert float((known - unknown).norm()) > 0.1 * float(unknown.norm())


class StoppedAtStep5(TrainingProgress):
    def report(self, done: float, total: float, note: str = "") -> None:
        del total, note
        if done == 5:
            raise KeyboardInterrupt


def test_a_training_that_was_stopped_ends_as_one_that_was_not(
    ear: SharedEncoder,
    lessons: list[Lesson],
    other: list[Lesson],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tools.training.recordings.learner._SAVE_EVERY", 2)
    (tmp_path / "whole").mkdir()
    (tmp_path / "stopped").mkdir()

    def train(name: str, kind: type[TrainingProgress] = TrainingProgress) -> SpeakerVectors:
        effort, work = TrainingEffort(Plan(steps=6, batch=2)), WorkFolder(tmp_path / name)
        drawn = Lessons([lessons, other], [1.0, 1.0], 1)
        training = Training(ear, effort, work, kind(1, StringIO()))
        return training.teach(voices_of(lessons, other), drawn)

    whole = train("whole")
    with pytest.raises(KeyboardInterrupt):
        train("stopped", StoppedAtStep5)
    resumed = train("stopped").state_dict()
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed[name]), name


def test_lessons_have_as_many_frames_in_everything_and_are_as_loud_as_the_network_speaks(
    lessons: list[Lesson],
) -> None:
    voice = HarmonicVoice()
    mei = load_network(CHARACTERS / "mei" / "harmonic.onnx", size=SIZE)
    usual = float(mei.cepstrum_mean[0])
    for lesson in lessons:
        frames = len(lesson.log_f0)
        assert len(lesson.speaking) == len(lesson.cepstra) == frames
        assert {len(content) for content in lesson.contents} == {frames}
        loud = lesson.cepstra[lesson.speaking, 0].astype(np.float32).mean()
        assert loud == pytest.approx(usual, abs=1.5)
        heard = synthesise(voice, lesson.cepstra, lesson.log_f0)
        assert 0.02 < np.sqrt((heard**2).mean()) < 0.3
