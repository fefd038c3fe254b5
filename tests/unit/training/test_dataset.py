import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from training import perception
from training.dataset import (
    CROP,
    HELD_OUT_EVERY,
    SPAN,
    Dataset,
    Disturbance,
    envelope_axis,
    group_of,
    voice_of,
)
from training.generate import Example
from training.phones import INVENTORY


def example(speaker: str, frames: int = 300, seed: int = 0) -> Example:
    random = np.random.default_rng(seed)
    log_f0 = np.where(np.arange(frames) % 50 < 30, 5.8, 0.0).astype(np.float32)
    return Example(
        speaker,
        random.standard_normal((frames, 35)).astype(np.float16),
        log_f0,
        random.integers(3, 14, frames).astype(np.uint8),
        [random.standard_normal((frames, 80)).astype(np.float16)],
    )


def dataset(folder: Path, count: int = 12) -> Dataset:
    examples = [example("mei", seed=i) for i in range(count)]
    (folder / "shard-1-0000.pickle").write_bytes(pickle.dumps(examples))
    return Dataset(folder, seed=1)


def test_natural_recordings_and_languages_are_groups_of_their_own() -> None:
    assert group_of("natural/ru_nsh") == "natural"
    assert group_of("festival/ked_diphone/ja") == "festival/ja"
    assert group_of("espeak/ja+m1") == "espeak/ja"
    assert group_of("espeak/en-us+f3") == "espeak/native"


def test_a_batch_holds_crops_with_context(tmp_path: Path) -> None:
    batch = dataset(tmp_path).batch(4)
    assert batch.power.shape == (4, SPAN, 80)
    assert batch.cepstrum.shape == (4, CROP, 35)
    assert bool((batch.f0 > 0).all())


def test_some_examples_are_held_out_and_never_trained_on(tmp_path: Path) -> None:
    data = dataset(tmp_path, HELD_OUT_EVERY)
    assert len(data.held_out) == 1
    held_out = data.held_out[0].cepstra
    assert not any(np.array_equal(e.cepstra, held_out) for e in data._groups["mei"])


def test_shards_that_appear_later_are_picked_up_once(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    before = data.refresh()
    (tmp_path / "shard-1-0001.pickle").write_bytes(pickle.dumps([example("mei", seed=99)]))
    after = data.refresh()
    assert (after, data.refresh()) == (before + 3, after)


def test_disturbances_change_the_input_and_not_the_target(tmp_path: Path) -> None:
    batch = dataset(tmp_path).batch(4)
    disturbed = Disturbance(seed=3)(batch)
    assert not torch.equal(disturbed.power, batch.power)
    assert torch.equal(disturbed.cepstrum, batch.cepstrum)
    assert torch.equal(disturbed.voiced, batch.voiced)
    assert bool(torch.isfinite(disturbed.power).all())
    assert bool(((disturbed.voicing >= 0) & (disturbed.voicing <= 1)).all())


def test_the_input_melody_differs_from_the_targets(tmp_path: Path) -> None:
    batch = dataset(tmp_path).batch(14)
    wave = torch.sin(torch.arange(CROP) / 4.0)
    melody = torch.exp(5.8 + 0.1 * wave).expand(14, -1)
    heard = Disturbance(seed=3)(replace(batch, f0=melody)).f0
    follows = [float(torch.corrcoef(torch.stack([torch.log(f), wave]))[0, 1]) for f in heard]
    assert np.mean(np.abs(follows) < 0.5) > 0.3
    assert bool(torch.isfinite(heard).all())
    assert float(torch.log(heard).sub(5.8).abs().mean()) < 0.3


def test_sources_given_words_may_lag_differently_from_sources_given_phones() -> None:
    assert voice_of("flite/slt/ja") != voice_of("flite/slt/en")
    assert voice_of("festival/ked_diphone/ja") != voice_of("festival/kal_diphone/ja")
    assert voice_of("espeak/ja+m1") == voice_of("espeak/ja+f2")


def late_by(half_frames: int) -> Example:
    """A sentence whose source is so many half frames later than the target."""
    random = np.random.default_rng(5)
    loudness = np.convolve(random.standard_normal(700), np.hanning(15), "valid")
    halves = np.interp(np.arange(600) / 2 - half_frames / 2, np.arange(686), loudness)
    cepstra = np.zeros((300, 35), np.float16)
    cepstra[:, 0] = 8 + loudness[:300]
    source = np.repeat(2 * halves[::2, None], 80, axis=1).astype(np.float16)
    plain = example("mei")
    return replace(plain, cepstra=cepstra, mels=[source])


@pytest.mark.parametrize("half_frames", [-3, 0, 2, 5])
def test_lags_are_found_to_half_a_frame(tmp_path: Path, half_frames: int) -> None:
    (tmp_path / "shard-1-0000.pickle").write_bytes(pickle.dumps([late_by(half_frames)]))
    # The target's own cepstra are moved by a quarter of a frame first.
    assert abs(Dataset(tmp_path, seed=1).lags["mei"] + half_frames / 2) <= 0.5


def test_the_targets_cepstra_come_a_quarter_of_a_frame_later_than_they_are_stored(
    tmp_path: Path,
) -> None:
    ramp = np.zeros((300, 35), np.float16)
    ramp[:, 1] = np.arange(300) / 100
    stored = replace(example("mei"), cepstra=ramp)
    (tmp_path / "shard-1-0000.pickle").write_bytes(pickle.dumps([stored] * 12))
    cepstra = Dataset(tmp_path, seed=1).batch(1).cepstrum[0, 20:60, 1] * 100
    assert torch.allclose(cepstra % 1, torch.full_like(cepstra, 0.75), atol=0.13)


def test_perception_hears_a_difference_that_matters(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    heard = perception.train(data, steps=2, batch=2)
    batch = data.batch(2)
    same = heard.hear(batch.cepstrum, batch.voiced)
    other = heard.hear(batch.cepstrum + 0.3, batch.voiced)
    assert float(heard.distance(same, same, batch.weight)) == 0
    assert float(heard.distance(other, same, batch.weight)) > 0
    assert same[-1].shape == (2, len(INVENTORY), CROP)
    assert not any(p.requires_grad for p in heard.parameters())
    assert heard.axis.shape == envelope_axis().shape
