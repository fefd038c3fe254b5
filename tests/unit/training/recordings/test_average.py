"""An average voice is learnt from folders of voices, and others can begin with it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.unit.training.conftest import CHARACTERS, RATE, Floats, write_speech
from tests.unit.training.recordings.test_learner import distance
from tools.training.average import Sources, learn
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.content.speaker_vectors import AVERAGE, Scale, begin, begin_from_nothing
from tools.training.recordings.learner import Plan, scale_of
from tools.training.recordings.lessons import Preparation
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError

PLAN = Plan(steps=40, batch=4, rate=1.2e-3)


@pytest.fixture
def sources(tmp_path: Path, woman: Floats, man: Floats) -> Sources:
    """A woman is learnt by her name, and two men as other people."""
    for number in range(2):
        said = slice(number * 5 * RATE, (number + 1) * 5 * RATE)
        write_speech(tmp_path / "voices" / "slt" / f"{number}.wav", woman[said])
        write_speech(tmp_path / "others" / str(number) / "said.wav", man[said])
    return Sources(tmp_path / "voices", tmp_path / "others")


def test_an_average_voice_is_learnt_from_nothing_and_another_decoder_begins_with_it(
    sources: Sources, woman: Floats, tmp_path: Path
) -> None:
    made = tmp_path / "made" / "average.npz"
    learn(sources, tmp_path / "work", PLAN, made)
    ear = SharedEncoder.of(CHARACTERS / "hina")
    said = Utterance("she.wav", 0.0, woman[25 * RATE : 30 * RATE], RATE)
    (held_out,) = Preparation(ear, seed=1, versions=0).of([said])
    scales = dict.fromkeys(("slt", "nobody"), scale_of([held_out]))
    before = distance(begin_from_nothing(scales, seed=1), held_out)
    learnt = begin(scales, made)
    assert distance(learnt, held_out) < 0.85 * before
    known, unknown = learnt.vectors.detach()
    assert float((known - unknown).norm()) > 0.01
    with np.load(made) as now, np.load(AVERAGE) as shipped:
        assert set(now.files) == set(shipped.files)
        assert {now[name].dtype.kind for name in now.files} == {"f", "U"}
        for name in set(now.files) - {"names"}:
            assert now[name].dtype == shipped[name].dtype, name
            assert now[name].shape[1:] == shipped[name].shape[1:], name


def test_an_average_voice_learns_on_beside_people_who_are_not_kept(
    sources: Sources, man: Floats, tmp_path: Path
) -> None:
    write_speech(tmp_path / "beside" / "777-1.wav", man[: 4 * RATE])
    more = replace(sources, beside=(tmp_path / "beside",), begin=AVERAGE)
    made, plan = tmp_path / "average.npz", replace(PLAN, steps=2)
    learn(more, tmp_path / "work", plan, made)
    with np.load(made) as now, np.load(AVERAGE) as before:
        assert now["names"].tolist() == ["slt", "0"]
        assert len(now["speaker.weight"]) == 2
        change = np.abs(now["decoder.0.wide.weight"] - before["decoder.0.wide.weight"]).max()
    assert 0 < change < 0.01

    written = made.read_bytes()
    learn(more, tmp_path / "work", plan, made)  # has nothing more to learn
    assert made.read_bytes() == written
    write_speech(tmp_path / "beside" / "777-1.wav", man[4 * RATE : 8 * RATE])
    learn(more, tmp_path / "work", plan, made)  # learns the others anew
    assert made.read_bytes() != written


def test_a_voice_alone_speaks_as_it_does_among_others() -> None:
    random = torch.Generator().manual_seed(1)
    scale = Scale(np.ones(35, np.float32), np.full(35, 2, np.float32), (5.0, 0.3))
    voices = begin({"one": scale, "two": scale})
    with torch.no_grad():
        voices.vectors += 0.3 * torch.randn(voices.vectors.shape, generator=random)
        content = torch.randn(1, 128, 50, generator=random)
        given = content, torch.full((1, 50), 300.0), torch.ones(1, 50)
        together = voices.speak(*given, torch.tensor([1]))
        alone = voices.alone(1).speak(*given)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_a_folder_without_voices_is_refused(tmp_path: Path) -> None:
    (tmp_path / "voices" / "mute").mkdir(parents=True)
    for sources, message in (
        (Sources(tmp_path / "voices" / "mute"), "expected a folder for each voice, found none"),
        (Sources(tmp_path / "voices"), "mute: expected a folder with recordings"),
        (
            Sources(tmp_path / "voices", begin=tmp_path / "missing.npz"),
            r"missing\.npz: expected a file to begin with",
        ),
    ):
        with pytest.raises(RecordingsError, match=message):
            learn(sources, tmp_path / "work", PLAN, tmp_path / "average.npz")
