from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from shared.speech.signal.pitch import HOP, cheapest_path, track
from shared.speech.signal.streaming import LAG, StreamAnalysis
from tests.unit.signal import signals


def errors_in_cents(
    sound: NDArray[np.float32], contour: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compare but for 4 frames at either end, where the window is half empty."""
    found = track(sound).hertz[4:-4].astype(np.float64)
    wanted = contour[::HOP][4 : 4 + len(found)]
    assert (found > 0).all(), "part of the vowel counts as unvoiced"
    return 1200 * np.abs(np.log2(found / wanted))


@pytest.mark.parametrize("hertz", [65.0, 107.0, 180.0, 311.0, 600.0])
def test_a_steady_voice_is_found_within_a_tenth_of_a_semitone_and_is_no_hum(hertz: float) -> None:
    contour = signals.glide(hertz, hertz, 2.0)
    assert np.max(errors_in_cents(signals.voice(contour), contour)) < 10


@pytest.mark.parametrize(("start", "end"), [(180, 90), (150, 450)])
def test_a_glide_with_vibrato_is_followed(start: float, end: float) -> None:
    contour = signals.glide(start, end, 1.5, vibrato=0.03)
    errors = errors_in_cents(signals.voice(contour), contour)
    assert np.percentile(errors, 95) < 30
    assert np.max(errors) < 100


@pytest.mark.parametrize("hertz", [95.0, 190.0, 330.0])
def test_noise_makes_no_octave_errors(hertz: float) -> None:
    contour = signals.glide(hertz, hertz * 1.2, 2.0)
    errors = errors_in_cents(signals.with_noise(signals.voice(contour), 5.0), contour)
    assert np.max(errors) < 120


@pytest.mark.parametrize("hertz", [95.0, 210.0])
def test_a_voice_over_the_telephone_keeps_its_missing_fundamental(hertz: float) -> None:
    contour = signals.glide(hertz, hertz * 1.2, 2.0)
    sound = signals.telephone(signals.voice(contour, formants=(400, 1900, 2600)))
    assert np.max(errors_in_cents(sound, contour)) < 60


@pytest.mark.parametrize("harmonic", [2, 3])
def test_if_one_harmonic_is_strongest_the_speakers_register_decides(harmonic: int) -> None:
    hertz = 107.0
    at = np.arange(signals.RATE // 5) / signals.RATE
    hum = sum(
        gain * np.sin(2 * np.pi * number * hertz * at)
        for number, gain in ((harmonic - 1, 0.05), (harmonic, 1.0), (harmonic + 1, 0.05))
    )
    nasal = signals.level(np.asarray(hum, np.float32), -20)
    vowel = signals.voice(signals.glide(hertz, hertz, 0.4))
    sound = np.concatenate([vowel, nasal, vowel, signals.silence(0.2), nasal, vowel])
    found = track(signals.with_noise(sound, 20)).hertz
    assert np.count_nonzero(found) > 140
    assert np.max(np.abs(np.log2(found[found > 0] / hertz))) < 0.3


@pytest.mark.parametrize("decibels", [-70.0, 0.0])
def test_the_level_of_the_recording_does_not_matter(decibels: float) -> None:
    sound = signals.voice(signals.glide(120, 180, 1.0))
    quiet = signals.level(sound, decibels)
    np.testing.assert_allclose(track(quiet).hertz, track(sound).hertz, rtol=1e-3)


def test_sounds_without_a_voice_are_unvoiced() -> None:
    for sound in (signals.hiss(2.0), signals.whisper(2.0), signals.silence(2.0)):
        assert track(sound).voicing.mean() <= 0.02

    vowel = signals.voice(signals.glide(140, 160, 0.5))
    hiss = signals.level(signals.hiss(0.5), -35)
    voicing = track(np.concatenate([signals.silence(0.5), vowel, hiss, vowel])).voicing
    for middle, wanted in ((25, 0), (75, 1), (125, 0), (175, 1)):
        assert (voicing[middle - 20 : middle + 20] == wanted).all()


@given(
    arrays.arrays(np.float32, st.tuples(st.integers(2, 4)), elements=st.floats(0, 9, width=32)),
    st.integers(0, 6),
    st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_no_path_is_cheaper_than_the_one_that_is_found(
    start: NDArray[np.float32], count: int, random: np.random.Generator
) -> None:
    states = len(start)
    steps = np.array([random.random() for _ in range(count * states * states)], np.float32).reshape(
        count, states, states
    )

    def cost(path: tuple[int, ...]) -> float:
        moves = pairwise(path)
        return float(start[path[0]]) + sum(
            float(steps[at, before, after]) for at, (before, after) in enumerate(moves)
        )

    best = min(cost(path) for path in product(range(states), repeat=count + 1))
    found = tuple(int(state) for state in cheapest_path(start, np.moveaxis(steps, 0, 2)))
    assert len(found) == count + 1
    assert cost(found) == pytest.approx(best, abs=1e-5)


STEP = 16
WAIT = 12
"""Frames of a voice that goes on: at a time, and until one is final."""


def sentence(hertz: float = 120.0) -> NDArray[np.float32]:
    """Vowels, fricatives and pauses, 6 s of them, in a quiet room."""
    parts = []
    for turn in range(6):
        vowel = signals.voice(signals.glide(hertz * (1 + 0.05 * turn), hertz * 0.9, 0.35))
        fricative = signals.level(signals.hiss(0.25), -34.0)
        parts += [vowel, fricative, signals.silence(0.15), fricative[:1600], vowel[:2400]]
    return signals.with_noise(np.concatenate(parts), 45.0)


def humming(sound: NDArray[np.float32], hertz: float) -> NDArray[np.float32]:
    """Add a hum 20 dB below the speech."""
    at = np.arange(len(sound)) / signals.RATE
    loud = np.abs(sound) > 0.05 * np.abs(sound).max()
    amplitude = np.sqrt(2 * np.square(sound[loud]).mean()) * 0.1
    return np.asarray(sound + amplitude * np.sin(2 * np.pi * hertz * at), np.float32)


def heard_while_spoken(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the frequency of each frame as it is when it must be final."""
    analysis = StreamAnalysis(signals.RATE)
    padded = np.concatenate([sound, signals.silence(1.0)])
    hertz = np.zeros(len(padded) // HOP, np.float32)
    for end in range(STEP, len(hertz), STEP):
        analysis.push(padded[(end - STEP) * HOP : end * HOP])
        if end < 2 * STEP + LAG:
            continue
        heard = analysis.hear(analysis.frames)
        last = heard.begin + len(heard.track.hertz) - WAIT
        first = max(last - STEP, heard.begin)
        hertz[first:last] = heard.track.hertz[first - heard.begin : last - heard.begin]
    return hertz[: len(sound) // HOP]


@pytest.mark.parametrize("hertz", [50.0, 120.0])
@pytest.mark.parametrize("follow", [lambda sound: track(sound).hertz, heard_while_spoken])
def test_at_most_a_tenth_of_the_unvoiced_frames_become_voiced_in_a_hum(
    hertz: float, follow: Callable[[NDArray[np.float32]], NDArray[np.float32]]
) -> None:
    quiet = sentence()
    before, after = follow(quiet) > 0, follow(humming(quiet, hertz)) > 0
    assert 0.3 < before.mean() < 0.8
    known = np.arange(len(before)) > 100  # what hums is not known at once
    assert after[~before & known].mean() <= 0.1
    assert after[before & known].mean() >= 0.93
