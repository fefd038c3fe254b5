"""What is heard is disturbed, alike with the same seed."""

import numpy as np
import torch

from tools.training.decoder.disturbance import Disturbance, spoil_one_way
from tools.training.decoder.features import RATE


def test_doubt_about_the_voicing_stays_a_share() -> None:
    voiced = (torch.arange(160) % 50 < 30).float().expand(8, -1)
    doubted = Disturbance(seed=3).doubt(voiced)
    assert torch.equal(doubted, Disturbance(seed=3).doubt(voiced))
    assert not torch.equal(doubted, voiced)
    assert bool(((doubted >= 0) & (doubted <= 1)).all())


def test_speech_that_is_spoilt_one_way_is_as_long_and_another() -> None:
    time = np.arange(RATE) / RATE
    wave = (0.3 * np.sin(2 * np.pi * 220 * time) * (time % 0.4 < 0.2)).astype(np.float32)
    random = np.random.default_rng(1)
    spoilt = [spoil_one_way(wave, random) for _ in range(40)]
    for one in spoilt:
        assert one.dtype == np.float32
        assert one.shape == wave.shape
        assert np.isfinite(one).all()
        assert np.abs(one - wave).max() > 0.01
    assert len({one.tobytes() for one in spoilt}) == len(spoilt)
    again = np.random.default_rng(1)
    assert np.array_equal(spoil_one_way(wave, again), spoilt[0])
