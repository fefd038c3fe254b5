from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from speech.signal.pitch import f0
from speech.signal.pitch.prosody import change_pitch
from speech.signal.samples import resample
from tests.unit.speech import signals

if TYPE_CHECKING:
    from numpy.typing import NDArray

RATE = 24_000


def speech() -> NDArray[np.float32]:
    """Make a voice that glides from 180 to 260 Hz, at 24 kHz."""
    return resample(signals.voice(signals.glide(180, 260, 1.5)), f0.SAMPLE_RATE, RATE)


def octaves(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    hertz = f0.track(resample(samples, RATE, f0.SAMPLE_RATE)).hertz[20:-20]
    assert (hertz > 0).mean() > 0.9
    voiced: NDArray[np.float32] = np.log2(hertz[hertz > 0])
    return voiced


@pytest.mark.parametrize("semitones", [-7.0, -2.0, 2.0, 5.0])
def test_speech_is_as_many_semitones_higher(semitones: float) -> None:
    changed = change_pitch(speech(), RATE, semitones, 1.0)

    difference = np.median(octaves(changed)) - np.median(octaves(speech()))
    assert difference * 12 == pytest.approx(semitones, abs=0.3)
    assert len(changed) == len(speech())


@pytest.mark.parametrize("intonation", [0.0, 0.5, 2.0])
def test_the_pitch_moves_by_the_requested_amount(intonation: float) -> None:
    changed = change_pitch(speech(), RATE, 0.0, intonation)

    spread = np.ptp(np.quantile(octaves(changed), [0.1, 0.9]))
    usual = np.ptp(np.quantile(octaves(speech()), [0.1, 0.9]))
    assert spread == pytest.approx(intonation * usual, abs=0.03)


def test_the_loudness_stays_about_the_same() -> None:
    level = np.sqrt(np.mean(speech() ** 2))

    for semitones in (-5.0, 5.0):
        changed = change_pitch(speech(), RATE, semitones, 1.0)
        assert 0.7 < np.sqrt(np.mean(changed**2)) / level < 1.4


def test_speech_without_options_is_unchanged() -> None:
    assert change_pitch(samples := speech(), RATE, 0.0, 1.0) is samples


@pytest.mark.parametrize("length", [0, 1, 100, 24_000])
def test_silence_stays_silence(length: int) -> None:
    silence = np.zeros(length, np.float32)

    np.testing.assert_array_equal(change_pitch(silence, RATE, 3.0, 1.5), silence)


def test_noise_stays_as_long_as_it_was() -> None:
    noise = np.random.default_rng(1).standard_normal(24_000, np.float32) * 0.1

    assert len(change_pitch(noise, RATE, 3.0, 1.5)) == len(noise)
