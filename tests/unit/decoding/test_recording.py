from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from shared.speech.decoding.demuxing import DecodingBudget
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

if TYPE_CHECKING:
    from collections.abc import Callable

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


MOST = 1_000_000


def steps_until_refused(step: Callable[[], None]) -> int:
    """Count the calls of `step` before it raises `too_complex`."""
    taken = 0

    def take_all() -> None:
        nonlocal taken
        for _ in range(MOST):
            step()
            taken += 1

    with pytest.raises(VoiceError) as raised:
        take_all()
    assert raised.value.code is ErrorCode.TOO_COMPLEX
    return taken


def effort(file_bytes: int = 1_000_000) -> DecodingBudget:
    return DecodingBudget(file_bytes, longest=10.0)


@pytest.mark.parametrize(
    ("step", "steps"),
    [
        (lambda spent: spent.count_frame(48_000, 48_000), 20),
        # An impossible sample rate does not make audio cheaper.
        (lambda spent: spent.count_frame(192_000, 0), 0),
        (lambda spent: spent.count_frame(192_000, 2**31 - 1), 20),
        (lambda spent: spent.count_packet(100_000), 20),
        (lambda spent: spent.count_packet(0), 21_000),
        (lambda spent: spent.count_fruitless_packet(), 999),
    ],
    ids=["audio", "no rate", "a huge rate", "bytes", "empty packets", "fruitless packets"],
)
def test_twice_the_audio_and_the_bytes_of_a_recording_and_so_many_packets_may_be_decoded(
    step: Callable[[DecodingBudget], None], steps: int
) -> None:
    spent = effort()
    assert steps_until_refused(lambda: step(spent)) == pytest.approx(steps, abs=1)


def test_a_file_that_came_while_it_was_decoded_is_judged_by_its_own_size() -> None:
    spent = effort(file_bytes=8_000_000)
    spent.count_packet(265_536)
    spent.count_file(100_000)

    assert steps_until_refused(lambda: spent.count_packet(1)) == 0
    with pytest.raises(VoiceError):
        spent.count_file(99_999)


def test_the_smallest_packets_of_every_codec_and_the_padding_of_a_small_file_fit() -> None:
    spent = effort()
    for _ in range(10 * 1000):
        spent.count_packet(20)
        spent.count_frame(192, 192_000)
    effort(file_bytes=100).count_packet(4_096)
