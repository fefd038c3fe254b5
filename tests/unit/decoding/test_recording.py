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


@pytest.mark.parametrize("seconds", [0.9, 1.0, 5.0, 10.0, 10.5])
def test_a_recording_within_the_limits_and_their_tolerance_is_accepted(seconds: float) -> None:
    check_recording(recorded(voice_like(seconds, RATE)), LIMITS)


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.89])
def test_a_recording_below_the_tolerance_is_too_short(seconds: float) -> None:
    assert code_of(recorded(voice_like(seconds, RATE))) == ErrorCode.TOO_SHORT


def test_a_damaged_recording_is_not_called_too_short() -> None:
    assert code_of(recorded(voice_like(0.5, RATE), damaged=True)) == ErrorCode.CORRUPT


def test_a_recording_above_the_tolerance_is_too_long() -> None:
    assert code_of(recorded(voice_like(10.6, RATE))) == ErrorCode.TOO_LONG


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 8.1, 32767.0, 3e38])
def test_one_impossible_sample_makes_a_recording_corrupt(value: float) -> None:
    samples = voice_like(2, RATE)
    samples[100] = value
    assert code_of(recorded(samples)) == ErrorCode.CORRUPT


def test_samples_a_little_over_full_scale_are_accepted() -> None:
    check_recording(recorded(voice_like(2, RATE, level=1.5)), LIMITS)


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


def test_very_quiet_speech_is_not_silent() -> None:
    check_recording(recorded(voice_like(2, RATE, level=0.003)), LIMITS)


def test_one_word_between_long_pauses_is_not_silent() -> None:
    samples = np.zeros(9 * RATE, dtype=np.float32)
    samples[4 * RATE : 5 * RATE] = voice_like(1, RATE, level=0.05)
    check_recording(recorded(samples), LIMITS)


def test_loudness_of_a_full_scale_sine_is_minus_three_decibels() -> None:
    sine = np.sin(2 * np.pi * 500 * np.arange(RATE) / RATE).astype(np.float32)
    assert loudness_dbfs(sine, RATE) == pytest.approx(-3.01, abs=0.01)


def test_loudness_of_less_than_a_frame_is_still_a_number() -> None:
    assert loudness_dbfs(np.full(3, 0.5, dtype=np.float32), RATE) < -100


def test_one_channel_is_unchanged() -> None:
    samples = voice_like(1, RATE)
    np.testing.assert_array_equal(downmix(samples[:, None]), samples)


def test_two_channels_become_their_mean() -> None:
    left, right = voice_like(1, RATE, hz=200), voice_like(1, RATE, hz=300)
    mixed = downmix(np.stack([left, right], axis=1))
    np.testing.assert_allclose(mixed, (left + right) / 2, atol=1e-6)
    assert mixed.dtype == np.float32


def test_the_louder_of_two_channels_that_cancel_out_is_used() -> None:
    left = voice_like(1, RATE)
    mixed = downmix(np.stack([left, np.float32(-1.1) * left], axis=1))
    np.testing.assert_allclose(mixed, np.float32(-1.1) * left, atol=1e-6)


def test_a_voice_on_one_channel_only_is_kept() -> None:
    left = voice_like(1, RATE)
    mixed = downmix(np.stack([left, np.zeros_like(left)], axis=1))
    np.testing.assert_allclose(mixed, left / 2, atol=1e-6)


def test_two_silent_channels_stay_silent() -> None:
    assert not downmix(np.zeros((100, 2), dtype=np.float32)).any()
