from __future__ import annotations

import numpy as np
import pytest

from speech.engines.rvc.loudness import loudness_gains

RATE = 40_000


def constant(
    level: float, seconds: float, rate: int
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.full(round(seconds * rate), level, np.float32)


def test_a_mix_of_1_keeps_the_loudness_of_the_voice() -> None:
    gains = loudness_gains(constant(0.5, 2, 16_000), 16_000, constant(0.1, 2, RATE), RATE, 1.0)

    assert gains == pytest.approx(np.ones(2 * RATE))


def test_a_mix_of_0_takes_the_loudness_of_the_recording() -> None:
    gains = loudness_gains(constant(0.5, 3, 16_000), 16_000, constant(0.1, 3, RATE), RATE, 0.0)

    assert gains == pytest.approx(np.full(3 * RATE, 5.0), rel=1e-5)
    assert gains.dtype == np.float32


def test_a_mix_between_takes_a_power_of_the_ratio() -> None:
    gains = loudness_gains(constant(0.4, 2, 16_000), 16_000, constant(0.1, 2, RATE), RATE, 0.25)

    assert gains[RATE] == pytest.approx(4.0**0.75, rel=1e-5)


def test_the_root_mean_square_is_of_a_second_around_every_half_second() -> None:
    recording = np.random.default_rng(1).standard_normal(37_000)
    centres = range(0, len(recording) + 1, 8_000)
    around = np.pad(recording, 8_000)
    expected = [np.sqrt(np.mean(around[at : at + 16_000] ** 2)) for at in centres]
    # Five values over five hundred samples: the middle of each hundred stands for a value.
    voice_rate = 200

    gains = loudness_gains(recording, 16_000, np.ones(500), voice_rate, 0.0)
    own = loudness_gains(np.ones(500), voice_rate, np.ones(500), voice_rate, 0.0)

    assert own == pytest.approx(np.ones(500), rel=1e-6)
    middle = gains[250] * 1.0
    at = (250.5 * len(expected) / 500) - 0.5
    assert middle == pytest.approx(np.interp(at, range(len(expected)), expected), rel=1e-5)


def test_a_silent_voice_is_not_divided_by_nothing() -> None:
    gains = loudness_gains(constant(0.1, 1, 16_000), 16_000, constant(0, 1, RATE), RATE, 0.25)

    assert np.isfinite(gains).all()
