"""What recordings go through before they are heard in a training."""

import numpy as np

from training.sound.augment import spoil_one_way
from training.sound.features import RATE


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
