from __future__ import annotations

import numpy as np
import pytest

from shared.speech.decoding.recording import (
    DecodeLimits,
    Recording,
    check_recording,
    downmix,
    loudness_dbfs,
)
from shared.voices.media import Container
from shared.voices.voice import ErrorCode, VoiceError
from tests.integration.audio.recordings import voice_like

RATE = 16_000
LIMITS = DecodeLimits(min_seconds=1, max_seconds=10)


def recorded(samples: np.ndarray, *, damaged: bool = False) -> Recording:
    return Recording(
        samples=np.asarray(samples, dtype=np.float32),
        sample_rate=RATE,
        container=Container.WAV,
        codec="pcm_s16le",
        channels=1,
        damaged=damaged,
        cpu_seconds=0.01,
        confined=True,
    )


def code_of(recording: Recording) -> str:
    with pytest.raises(VoiceError) as raised:
        check_recording(recording, LIMITS)
    return raised.value.code


@pytest.mark.parametrize("seconds", [0.9, 10.5])
def test_a_recording_within_the_limits_and_their_tolerance_is_accepted(seconds: float) -> None:
    check_recording(recorded(voice_like(seconds, RATE)), LIMITS)


def test_a_recording_beyond_the_tolerance_is_too_short_or_too_long() -> None:
    assert code_of(recorded(np.zeros(0))) == ErrorCode.TOO_SHORT
    assert code_of(recorded(voice_like(0.89, RATE))) == ErrorCode.TOO_SHORT
    assert code_of(recorded(voice_like(0.89, RATE), damaged=True)) == ErrorCode.CORRUPT
    assert code_of(recorded(voice_like(10.6, RATE))) == ErrorCode.TOO_LONG


@pytest.mark.parametrize("value", [np.nan, -np.inf, 8.1, 3e38])
def test_one_impossible_sample_makes_a_recording_corrupt(value: float) -> None:
    samples = voice_like(2, RATE)
    samples[100] = value
    assert code_of(recorded(samples)) == ErrorCode.CORRUPT


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(2 * RATE),
        np.full(2 * RATE, 0.3),
        np.random.default_rng(1).normal(0, 10 ** (-70 / 20), 2 * RATE),
        np.where(np.arange(2 * RATE) == RATE, 0.9, 0.0),
    ],
    ids=["nothing", "a constant", "a quiet microphone's noise", "one click"],
)
def test_a_recording_without_a_voice_is_silent(samples: np.ndarray) -> None:
    assert code_of(recorded(samples)) == ErrorCode.SILENT


def test_quiet_or_loud_speech_and_one_word_between_long_pauses_are_accepted() -> None:
    word = np.zeros(9 * RATE, dtype=np.float32)
    word[4 * RATE : 5 * RATE] = voice_like(1, RATE, level=0.05)
    for samples in (voice_like(2, RATE, level=0.003), voice_like(2, RATE, level=1.5), word):
        check_recording(recorded(samples), LIMITS)


def test_loudness_of_a_full_scale_sine_is_minus_three_decibels() -> None:
    sine = np.sin(2 * np.pi * 500 * np.arange(RATE) / RATE).astype(np.float32)
    assert loudness_dbfs(sine, RATE) == pytest.approx(-3.01, abs=0.01)
    assert loudness_dbfs(np.full(3, 0.5, dtype=np.float32), RATE) < -100, "less than a frame"


def test_one_channel_is_unchanged_and_two_become_their_mean() -> None:
    left, right = voice_like(1, RATE, hz=200), voice_like(1, RATE, hz=300)
    np.testing.assert_array_equal(downmix(left[:, None]), left)
    mixed = downmix(np.stack([left, right], axis=1))
    np.testing.assert_allclose(mixed, (left + right) / 2, atol=1e-6)
    assert mixed.dtype == np.float32
    only_left = downmix(np.stack([left, np.zeros_like(left)], axis=1))
    np.testing.assert_allclose(only_left, left / 2, atol=1e-6)


def test_the_louder_of_two_channels_that_cancel_out_is_used() -> None:
    left = voice_like(1, RATE)
    mixed = downmix(np.stack([left, np.float32(-1.1) * left], axis=1))
    np.testing.assert_allclose(mixed, np.float32(-1.1) * left, atol=1e-6)
    assert not downmix(np.zeros((100, 2), dtype=np.float32)).any()
