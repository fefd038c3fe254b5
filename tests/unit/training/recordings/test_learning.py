"""A short training learns, and goes on as if it had never been stopped."""

import copy
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from importing.bundles.consent import Consent
from tests.unit.training.recordings.conftest import CONSENT
from training.export import GRAPH, Melody
from training.graph_weights import load_network
from training.network import HarmonicVoice, Network
from training.quality.converter import Converter
from training.quality.similarity import SpeakerEncoder, SpeakerLikeness
from training.quality.synthesis import synthesise
from training.recordings import hearing
from training.recordings.bundle import Names, write_bundle
from training.recordings.hearing import (
    HearingLoss,
    as_before,
    encoder_parameters,
    nearest_of_owner,
)
from training.recordings.learning import (
    Disturber,
    Learner,
    Lessons,
    Objective,
    Part,
    Plan,
    Report,
    fresh_decoder,
    held_out_distance,
)
from training.recordings.preparation import Lesson, Preparation, heard_by
from training.recordings.screening import Utterance
from training.recordings.stages import Trained

MEI = Path(__file__).parents[4] / "characters" / "mei"
RATE = 16_000
Floats = NDArray[np.float32]


@pytest.fixture(scope="module")
def base() -> Network:
    torch.set_num_threads(1)
    return load_network(MEI / GRAPH)


@pytest.fixture(scope="module")
def lessons(base: Network, woman: Floats) -> list[Lesson]:
    parts = woman[: 25 * RATE].reshape(5, -1)
    utterances = [Utterance("she.wav", 0.0, part, RATE) for part in parts]
    return list(Preparation(base, seed=1, versions=1).of_owner(utterances))


def ignore(*_: object) -> None:
    pass


def train(
    network: Network, lessons: list[Lesson], plan: Plan, file: Path, report: Report = ignore
) -> Network:
    drawn, disturb, objective = Lessons(lessons, 1), Disturber(1), Objective()

    def loss(network: Network, step: int) -> tuple[torch.Tensor, float]:
        batch = drawn.batch(step, plan.batch)
        result: tuple[torch.Tensor, float] = objective(network, disturb(batch, step), batch.voicing)
        return result

    return Learner(network, plan, loss, file).run(report)


def likeness(
    network: Network, lessons: list[Lesson], source: Floats, like: SpeakerLikeness
) -> float:
    """Of a recording converted with a bundle that has this network's decoder."""
    melody = Melody.of(np.concatenate([lesson.log_f0[lesson.log_f0 > 0] for lesson in lessons]))
    with TemporaryDirectory() as folder:
        bundle = Path(folder) / "ada"
        names = Names("ada", "Ada", "Ada")
        consent = Consent.model_validate(CONSENT)
        write_bundle(bundle, names, consent, Trained(network, melody), MEI)
        return like.of(Converter.of(bundle)(source))


def test_envelopes_and_likeness_improve(
    base: Network, lessons: list[Lesson], woman: Floats, tmp_path: Path
) -> None:
    learnt, held_out = lessons[:4], lessons[4:]
    fresh = fresh_decoder(base, learnt, seed=1)
    like = SpeakerLikeness([woman[: 10 * RATE]], SpeakerEncoder())
    heard = woman[20 * RATE : 25 * RATE]
    before = held_out_distance(fresh, held_out), likeness(fresh, learnt, heard, like)
    trained = train(fresh, learnt, Plan(steps=70, batch=4), tmp_path / "learner.pt")
    after = held_out_distance(trained, held_out), likeness(trained, learnt, heard, like)
    assert after[0] < 0.6 * before[0]
    assert after[1] > before[1] + 0.1


def test_the_encoder_stays_as_it_is(base: Network, lessons: list[Lesson], tmp_path: Path) -> None:
    network = fresh_decoder(base, lessons, seed=1)
    trained = train(network, lessons, Plan(steps=2, batch=2), tmp_path / "learner.pt")
    for name, value in base.state_dict().items():
        if name.startswith(("entry", "encoder", "content", "mel_mean")):
            assert torch.equal(value, trained.state_dict()[name]), name


def test_a_training_that_was_stopped_ends_as_one_that_was_not(
    base: Network, lessons: list[Lesson], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.recordings.learning._SAVE_EVERY", 2)
    plan = Plan(steps=6, batch=2)
    whole = train(fresh_decoder(base, lessons, 1), lessons, plan, tmp_path / "whole.pt")

    def stop(step: int, *_: object) -> None:
        if step == 5:
            raise KeyboardInterrupt

    file = tmp_path / "stopped.pt"
    with pytest.raises(KeyboardInterrupt):
        train(fresh_decoder(base, lessons, 1), lessons, plan, file, stop)
    resumed = train(fresh_decoder(base, lessons, 1), lessons, plan, file)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


@pytest.fixture(scope="module")
def stranger(base: Network, man: Floats) -> list[Lesson]:
    parts = man[: 20 * RATE].reshape(4, -1)
    utterances = [Utterance("he.wav", 0.0, part, RATE) for part in parts]
    return list(Preparation(base, seed=2, versions=1).of_others(utterances))


def test_the_nearest_that_the_owner_says_to_what_the_owner_says_is_the_same(
    lessons: list[Lesson], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "NEIGHBOURS", 1)
    (answer,) = nearest_of_owner(lessons, lessons[:1])
    speaking = lessons[0].speaking
    np.testing.assert_array_equal(answer.content[speaking], lessons[0].contents[0][speaking])


def test_the_encoder_learns_to_hear_a_stranger_as_the_owner(
    base: Network, lessons: list[Lesson], stranger: list[Lesson], tmp_path: Path
) -> None:
    answers = nearest_of_owner(lessons, stranger)
    loss = HearingLoss(as_before(lessons), answers[:3], batch=6, seed=1)
    part = Part(encoder_parameters, "{:.2f}")
    network = copy.deepcopy(base).train()
    plan = Plan(steps=25, batch=6, rate=4e-4)
    learnt = Learner(network, plan, loss, tmp_path / "hearing.pt", part).run(ignore)
    held_out, speaking = answers[3].content.astype(np.float32), stranger[3].speaking

    def wrong(encoder: Network) -> float:
        (heard,) = heard_by(encoder, stranger[3:])
        return float(np.square(heard.contents[0] - held_out)[speaking].mean())

    assert wrong(learnt) < 0.85 * wrong(base)
    for name, value in base.state_dict().items():
        if name.startswith(("join", "decoder", "exit", "cepstrum")):
            assert torch.equal(value, learnt.state_dict()[name]), name


def test_lessons_are_as_loud_as_the_network_speaks(base: Network, lessons: list[Lesson]) -> None:
    voice = HarmonicVoice()
    for lesson in lessons:
        loud = lesson.cepstra[lesson.speaking, 0].astype(np.float32).mean()
        assert loud == pytest.approx(float(base.cepstrum_mean[0]), abs=1.5)
        heard = synthesise(voice, lesson.cepstra, lesson.log_f0)
        assert 0.02 < np.sqrt((heard**2).mean()) < 0.3


def test_lessons_have_as_many_frames_in_everything(lessons: list[Lesson]) -> None:
    for lesson in lessons:
        frames = len(lesson.log_f0)
        assert len(lesson.speaking) == len(lesson.cepstra) == frames
        assert {len(content) for content in lesson.contents} == {frames}
