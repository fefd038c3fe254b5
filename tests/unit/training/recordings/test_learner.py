"""A short training learns, and goes on as if it had never been stopped."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.unit.training.recordings.conftest import CONSENT
from tools.bundles.consent import Consent
from tools.training.content.graphs import SIZE
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.content.speaker_vectors import AVERAGE, SpeakerVectors, begin
from tools.training.decoder.export import Melody, load_network
from tools.training.decoder.network import HarmonicVoice
from tools.training.judges.converter import BundleConverter
from tools.training.judges.measures import SpeakerEncoder, SpeakerLikeness
from tools.training.recordings.bundle import Names, write_bundle
from tools.training.recordings.comparison import synthesise
from tools.training.recordings.learner import (
    Disturber,
    Learner,
    Lessons,
    Objective,
    Plan,
    Report,
    TrainedDecoder,
    held_out_distance,
    scale_of,
)
from tools.training.recordings.lessons import Lesson, Preparation
from tools.training.recordings.usable_speech import Utterance

CHARACTERS = Path(__file__).parents[4] / "characters"
NED = CHARACTERS / "ned"
RATE = 16_000
Floats = NDArray[np.float32]


@pytest.fixture(scope="module")
def ear() -> SharedEncoder:
    torch.set_num_threads(1)
    return SharedEncoder.of(NED)


@pytest.fixture(scope="module")
def lessons(ear: SharedEncoder, woman: Floats) -> list[Lesson]:
    parts = woman[: 25 * RATE].reshape(5, -1)
    utterances = [Utterance("she.wav", 0.0, part, RATE) for part in parts]
    return list(Preparation(ear, seed=1, versions=1).of(utterances))


@pytest.fixture(scope="module")
def other(ear: SharedEncoder, man: Floats) -> list[Lesson]:
    parts = man[: 10 * RATE].reshape(2, -1)
    utterances = [Utterance("he.wav", 0.0, part, RATE) for part in parts]
    return list(Preparation(ear, seed=2, versions=0).of(utterances))


def ignore(*_: object) -> None:
    pass


def voices_of(*people: list[Lesson]) -> SpeakerVectors:
    torch.manual_seed(1)
    return begin({str(number): scale_of(one) for number, one in enumerate(people)})


def train(
    voices: SpeakerVectors,
    people: list[list[Lesson]],
    plan: Plan,
    file: Path,
    report: Report = ignore,
) -> SpeakerVectors:
    drawn = Lessons(people, [1.0] * len(people), 1)
    disturb, objective = Disturber(1), Objective()

    def loss(voices: SpeakerVectors, step: int) -> tuple[torch.Tensor, float]:
        batch = drawn.batch(step, plan.batch)
        result: tuple[torch.Tensor, float] = objective(voices, disturb(batch, step), batch.voicing)
        return result

    return Learner(voices, plan, loss, file).run(report)


def likeness(
    voices: SpeakerVectors, lessons: list[Lesson], source: Floats, like: SpeakerLikeness
) -> float:
    """Of a recording converted with a bundle that has the first voice."""
    melody = Melody.of(np.concatenate([lesson.log_f0[lesson.log_f0 > 0] for lesson in lessons]))
    with TemporaryDirectory() as folder:
        bundle = Path(folder) / "ada"
        consent = Consent.model_validate(CONSENT)
        trained = TrainedDecoder(voices.alone(0), melody)
        write_bundle(bundle, Names("ada", "Ada", "Ada"), consent, trained, NED)
        return like.of(BundleConverter.of(bundle)(source))


def test_the_average_voice_comes_closer_to_its_owner(
    lessons: list[Lesson], woman: Floats, tmp_path: Path
) -> None:
    learnt, held_out = lessons[:4], lessons[4:]
    voices = voices_of(learnt)
    like = SpeakerLikeness([woman[: 10 * RATE]], SpeakerEncoder())
    heard = woman[20 * RATE : 25 * RATE]
    before = held_out_distance(voices, held_out), likeness(voices, learnt, heard, like)
    trained = train(voices, [learnt], Plan(steps=70, batch=4), tmp_path / "learner.pt")
    after = held_out_distance(trained, held_out), likeness(trained, learnt, heard, like)
    assert after[0] < 0.8 * before[0]
    assert after[1] > before[1] + 0.05


def test_others_are_remembered_while_the_owner_is_learnt(
    lessons: list[Lesson], other: list[Lesson], tmp_path: Path
) -> None:
    voices = voices_of(lessons, other)
    before = held_out_distance(voices, other[1:], who=1)
    plan = Plan(steps=60, batch=6)
    together = train(voices, [lessons, other[:1]], plan, tmp_path / "together.pt")
    alone = train(voices_of(lessons, other), [lessons], plan, tmp_path / "alone.pt")
    assert held_out_distance(together, other[1:], who=1) < before
    assert held_out_distance(alone, other[1:], who=1) > 1.1 * held_out_distance(
        together, other[1:], who=1
    )


def test_who_is_new_is_soon_told_apart_from_others(
    lessons: list[Lesson], other: list[Lesson], tmp_path: Path
) -> None:
    voices = voices_of(lessons, other)
    assert torch.equal(*voices.vectors)
    with np.load(AVERAGE) as kept:
        known = kept["speaker.weight"].astype(np.float32)
    usual = float(np.median(np.linalg.norm(known - known.mean(0), axis=1)))
    trained = train(voices, [lessons, other], Plan(steps=60, batch=4), tmp_path / "learner.pt")
    one, another = trained.vectors.detach()
    assert float((one - another).norm()) > 0.25 * usual


def test_a_reader_that_the_average_voice_knows_begins_as_that_reader(
    lessons: list[Lesson],
) -> None:
    scale = scale_of(lessons)
    known, unknown, another = begin({"en_26": scale, "ada": scale, "eve": scale}).vectors.detach()
    assert torch.equal(unknown, another)
    assert float((known - unknown).norm()) > 0.1 * float(unknown.norm())


def test_a_voice_alone_speaks_as_it_does_among_others(
    lessons: list[Lesson], other: list[Lesson]
) -> None:
    voices = voices_of(other, lessons)
    with torch.no_grad():
        voices.vectors[1] += 0.3
    random = torch.Generator().manual_seed(1)
    given = (
        torch.randn(1, 128, 50, generator=random),
        torch.full((1, 50), 200.0),
        torch.ones(1, 50),
    )
    alone, _ = voices.alone(1).speak(*given)
    among, _ = voices.speak(*given, torch.tensor([1]))
    # At the ends the vector is no bias of the padding, so it is the same everywhere.
    torch.testing.assert_close(alone, among, rtol=1e-4, atol=1e-4)


def test_a_bundle_names_the_shared_encoder_and_does_not_hold_it(
    lessons: list[Lesson], tmp_path: Path
) -> None:
    consent = Consent.model_validate(CONSENT)
    melody = Melody.of(np.concatenate([lesson.log_f0[lesson.log_f0 > 0] for lesson in lessons]))
    bundle = tmp_path / "ada"
    trained = TrainedDecoder(voices_of(lessons).alone(0), melody)
    write_bundle(bundle, Names("ada", "Ada", "Ada"), consent, trained, NED)
    graphs = [json.loads((one / "character.json").read_text())["graphs"] for one in (bundle, NED)]
    assert graphs[0]["content"] == graphs[1]["content"]
    assert not (bundle / "content.onnx").exists()
    assert (tmp_path / "encoders" / f"{graphs[0]['content']['sha256']}.onnx").is_file()


def test_a_training_that_was_stopped_ends_as_one_that_was_not(
    lessons: list[Lesson], other: list[Lesson], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.training.recordings.learner._SAVE_EVERY", 2)
    plan, people = Plan(steps=6, batch=2), [lessons, other]
    whole = train(voices_of(*people), people, plan, tmp_path / "whole.pt")

    def stop(step: int, *_: object) -> None:
        if step == 5:
            raise KeyboardInterrupt

    file = tmp_path / "stopped.pt"
    with pytest.raises(KeyboardInterrupt):
        train(voices_of(*people), people, plan, file, stop)
    resumed = train(voices_of(*people), people, plan, file)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_lessons_are_as_loud_as_the_network_speaks(lessons: list[Lesson]) -> None:
    voice = HarmonicVoice()
    mei = load_network(CHARACTERS / "mei" / "harmonic.onnx", size=SIZE)
    usual = float(mei.cepstrum_mean[0])
    for lesson in lessons:
        loud = lesson.cepstra[lesson.speaking, 0].astype(np.float32).mean()
        assert loud == pytest.approx(usual, abs=1.5)
        heard = synthesise(voice, lesson.cepstra, lesson.log_f0)
        assert 0.02 < np.sqrt((heard**2).mean()) < 0.3


def test_lessons_have_as_many_frames_in_everything(lessons: list[Lesson]) -> None:
    for lesson in lessons:
        frames = len(lesson.log_f0)
        assert len(lesson.speaking) == len(lesson.cepstra) == frames
        assert {len(content) for content in lesson.contents} == {frames}
