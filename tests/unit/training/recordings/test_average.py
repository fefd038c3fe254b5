"""An average voice is learnt from folders of voices, and others can begin with it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from tools.training.average import Sources, learn
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.content.speaker_vectors import (
    AVERAGE,
    Scale,
    begin,
    begin_from_nothing,
)
from tools.training.recordings.learner import Plan, held_out_distance, scale_of
from tools.training.recordings.lessons import Preparation
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError

CHARACTERS = Path(__file__).parents[4] / "characters"
RATE = 16_000
PLAN = Plan(steps=80, batch=4, rate=1.2e-3)
Floats = NDArray[np.float32]


@pytest.fixture
def sources(tmp_path: Path, woman: Floats, man: Floats) -> Sources:
    """A woman is learnt by her name, and two men as other people."""
    for number in range(5):
        write(tmp_path / "voices" / "slt" / f"{number}.wav", woman, number * 5, 5)
    for number in range(2):
        write(tmp_path / "others" / str(number) / "said.wav", man, number * 8, 8)
    return Sources(tmp_path / "voices", tmp_path / "others")


def write(file: Path, wave: Floats, first: int, seconds: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(file, wave[first * RATE : (first + seconds) * RATE], RATE)


def test_an_average_voice_is_learnt_from_nothing_and_another_decoder_begins_with_it(
    sources: Sources, woman: Floats, tmp_path: Path
) -> None:
    made = tmp_path / "made" / "average.npz"
    learn(sources, tmp_path / "work", PLAN, made)
    ear = SharedEncoder.of(CHARACTERS / "hina")
    held_out = list(
        Preparation(ear, seed=1, versions=0).of(
            [Utterance("she.wav", 0.0, woman[25 * RATE : 32 * RATE], RATE)]
        )
    )
    scales = {"slt": scale_of(held_out), "nobody": scale_of(held_out)}
    before = held_out_distance(begin_from_nothing(scales, seed=1), held_out)
    learnt = begin(scales, made)
    assert held_out_distance(learnt, held_out) < 0.85 * before
    known, unknown = learnt.vectors.detach()
    assert float((known - unknown).norm()) > 0.01
    with np.load(made) as now, np.load(AVERAGE) as shipped:
        assert set(now.files) == set(shipped.files)
        assert {now[name].dtype.kind for name in now.files} == {"f", "U"}
        for name in set(now.files) - {"names"}:
            assert now[name].dtype == shipped[name].dtype, name
            assert now[name].shape[1:] == shipped[name].shape[1:], name

    written = made.read_bytes()
    learn(sources, tmp_path / "work", PLAN, made)  # has nothing more to learn
    assert made.read_bytes() == written


def test_other_recordings_of_the_same_people_are_learnt_anew(
    sources: Sources, woman: Floats, tmp_path: Path
) -> None:
    plan, made = replace(PLAN, steps=2), tmp_path / "average.npz"
    learn(sources, tmp_path / "work", plan, made)
    written = made.read_bytes()
    assert sources.others is not None
    write(sources.others / "0" / "said.wav", woman, 0, 8)
    learn(sources, tmp_path / "work", plan, made)
    assert made.read_bytes() != written


def test_more_people_are_learnt_beside_and_not_kept_and_an_average_voice_learns_on(
    sources: Sources, man: Floats, tmp_path: Path
) -> None:
    write(tmp_path / "beside" / "777-1.wav", man, 0, 8)
    more = replace(sources, beside=(tmp_path / "beside",), begin=AVERAGE)
    made = tmp_path / "average.npz"
    learn(more, tmp_path / "work", replace(PLAN, steps=2), made)
    with np.load(made) as now, np.load(AVERAGE) as before:
        assert now["names"].tolist() == ["slt", "0"]
        assert len(now["speaker.weight"]) == 2
        change = np.abs(now["decoder.0.wide.weight"] - before["decoder.0.wide.weight"]).max()
    assert 0 < change < 0.01


@pytest.mark.parametrize("voice", [0, 1])
def test_a_voice_alone_speaks_as_it_does_among_others(voice: int) -> None:
    random = torch.Generator().manual_seed(1)
    scale = Scale(np.ones(35, np.float32), np.full(35, 2, np.float32), (5.0, 0.3))
    voices = begin({"one": scale, "two": scale})
    with torch.no_grad():
        voices.vectors += 0.3 * torch.randn(voices.vectors.shape, generator=random)
        given = (
            torch.randn(1, 128, 50, generator=random),
            torch.full((1, 50), 300.0),
            torch.ones(1, 50),
        )
        together = voices.speak(*given, torch.tensor([voice]))
        alone = voices.alone(voice).speak(*given)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_a_folder_without_voices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingsError, match="expected a folder for each voice, found none"):
        learn(Sources(tmp_path), tmp_path / "work", PLAN, tmp_path / "average.npz")
    (tmp_path / "voices" / "mute").mkdir(parents=True)
    with pytest.raises(RecordingsError, match="mute: expected a folder with recordings"):
        learn(Sources(tmp_path / "voices"), tmp_path / "work", PLAN, tmp_path / "average.npz")
    missing = Sources(tmp_path / "voices", begin=tmp_path / "missing.npz")
    with pytest.raises(RecordingsError, match=r"missing\.npz: expected a file to begin with"):
        learn(missing, tmp_path / "work", PLAN, tmp_path / "average.npz")
