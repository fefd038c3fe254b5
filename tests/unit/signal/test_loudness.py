import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shared.speech.signal.analysis import Analysis, analyse, gate_gains
from shared.speech.signal.loudness import CEILING, fade_ends, finish, limit
from shared.speech.signal.sound import NoClock
from tests.unit.signal import signals

RATE = 24_000


def analysed(sound: NDArray[np.float32]) -> Analysis:
    return analyse(sound, signals.RATE, NoClock())


def vowel(seconds: float = 0.5) -> NDArray[np.float32]:
    return signals.voice(signals.glide(140, 170, seconds))


def babble(seconds: float) -> NDArray[np.float32]:
    """Stand in for a network that speaks all the time."""
    random = np.random.default_rng(5)
    return signals.level(random.standard_normal(round(seconds * RATE)).astype(np.float32), -20)


@pytest.mark.parametrize(
    ("soft", "noise"),
    [
        pytest.param(vowel(), -25.0, id="a voice in noise"),
        pytest.param(signals.level(vowel(0.4), -46), -50.0, id="a soft voice barely above it"),
    ],
)
def test_noise_chops_no_speech(soft: NDArray[np.float32], noise: float) -> None:
    sound = np.concatenate([vowel(), signals.silence(0.6), soft, signals.silence(0.5)])
    sound += signals.level(signals.hiss(3.0), noise)[: len(sound)]
    speech = analysed(sound).speech
    assert speech[1:49].all()
    assert speech[113 : 108 + len(soft) // 160 - 1].all()


def test_a_soft_consonant_after_a_vowel_passes() -> None:
    soft = signals.level(signals.hiss(0.12), -48)
    sound = np.concatenate([signals.silence(0.3), vowel(), soft, signals.silence(0.5)])
    assert analysed(sound).speech[30:92].all()


def test_pauses_in_noise_are_softened_and_not_cut() -> None:
    sound = signals.with_noise(np.concatenate([vowel(1.0), signals.silence(1.0)] * 2), 15)
    analysis = analysed(sound)
    gains = gate_gains(analysis.levels, analysis.speech)
    assert 0.1 < gains[150] < 0.7
    assert gains[50] == pytest.approx(1)


def test_a_whisper_is_speech() -> None:
    sound = np.concatenate([signals.silence(0.5), signals.whisper(1.95), signals.silence(0.5)])
    analysis = analysed(sound)
    assert not (analysis.track.hertz > 0).any()
    loud = analysis.levels.frames > analysis.levels.speech - 15
    assert analysis.speech[loud].all()
    assert not analysis.speech[:30].any()


@pytest.mark.parametrize(
    "sound",
    [
        signals.silence(1.0),
        signals.level(signals.hiss(1.0), -62.0),
        signals.level(signals.hiss(1.0), -45.0),
        signals.silence(1.0) + np.float32(0.25),
    ],
    ids=["nothing", "quiet noise", "a fan", "an offset"],
)
def test_a_recording_without_speech_has_no_speech(sound: NDArray[np.float32]) -> None:
    assert not analysed(sound).speech.any()


@pytest.mark.parametrize(("recorded", "heard"), [(-26, -13), (-55, -13), (-2, -10), (-12, -12)])
def test_loudness_follows_the_recording_within_limits(recorded: float, heard: float) -> None:
    sound = signals.level(vowel(2.0), recorded)
    converted = finish(babble(2.0), RATE, 2 * RATE, analysed(sound))
    assert signals.decibels(converted) == pytest.approx(heard, abs=1.0)
    sound[len(sound) // 2 :] *= np.float32(0.25)
    halves = np.split(finish(babble(2.0), RATE, 2 * RATE, analysed(sound)), 2)
    loud, soft = signals.decibels(halves[0][:-5_000]), signals.decibels(halves[1][5_000:])
    assert loud - soft > 3


@given(st.floats(0.1, 50.0), st.integers(0, 2**32 - 1), st.integers(1, 5_000))
@settings(deadline=None)
def test_nothing_ever_clips(peak: float, seed: int, length: int) -> None:
    random = np.random.default_rng(seed)
    sound = random.standard_normal(length) * (random.random(length) > 0.99) * peak
    limited = limit(sound.astype(np.float32), RATE)
    assert len(limited) == length
    assert np.max(np.abs(limited)) <= CEILING


def test_the_limiter_turns_down_around_a_peak_and_leaves_the_rest() -> None:
    at = np.arange(RATE) / RATE
    sound = (0.5 * np.sin(2 * np.pi * 200 * at)).astype(np.float32)
    sound[RATE // 2 : RATE // 2 + 240] *= 4
    limited = limit(sound, RATE)
    np.testing.assert_array_equal(limited[: RATE // 3], sound[: RATE // 3])
    around = slice(RATE // 2 - 480, RATE // 2 + 720)
    ratio = (
        limited[around][np.abs(sound[around]) > 0.1] / sound[around][np.abs(sound[around]) > 0.1]
    )
    assert np.max(np.abs(np.diff(ratio))) < 0.05, "the gain jumps: that is a click"


@pytest.mark.parametrize("length", [0, 1, 2, 100, RATE])
def test_the_ends_rise_from_and_fall_to_nothing(length: int) -> None:
    faded = fade_ends(np.ones(length, np.float32), RATE)
    assert len(faded) == length
    assert length < 2 or faded[0] == faded[-1] == 0
    assert (faded[120:-120] == 1).all()
