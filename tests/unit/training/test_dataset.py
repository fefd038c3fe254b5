import pickle
from pathlib import Path

import numpy as np
import torch

from training.dataset import CROP, HELD_OUT_EVERY, SPAN, Dataset, Disturbance, group_of
from training.generate import Example


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


def test_disturbances_change_what_is_heard_and_nothing_that_is_wanted(tmp_path: Path) -> None:
    batch = dataset(tmp_path).batch(4)
    disturbed = Disturbance(seed=3)(batch)
    assert not torch.equal(disturbed.power, batch.power)
    assert torch.equal(disturbed.cepstrum, batch.cepstrum)
    assert torch.equal(disturbed.voiced, batch.voiced)
    assert bool(torch.isfinite(disturbed.power).all())
    assert bool(((disturbed.voicing >= 0) & (disturbed.voicing <= 1)).all())
