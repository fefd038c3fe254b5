"""A hum of mains or of a fan turns hardly anything voiced that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from speech.signal.pitch.f0 import HOP, track
from speech.signal.running.analysis import LAG, RunningAnalysis
from tests.unit.speech import signals

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    analysis = RunningAnalysis(signals.RATE)
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


@pytest.mark.parametrize("hertz", [50.0, 60.0, 100.0, 120.0])
@pytest.mark.parametrize("follow", [lambda sound: track(sound).hertz, heard_while_spoken])
def test_at_most_a_tenth_of_the_unvoiced_frames_become_voiced_in_a_hum(
    hertz: float, follow: object
) -> None:
    assert callable(follow)
    quiet = sentence()
    before, after = follow(quiet) > 0, follow(humming(quiet, hertz)) > 0
    assert 0.3 < before.mean() < 0.8
    known = np.arange(len(before)) > 100  # what hums is not known at once
    assert after[~before & known].mean() <= 0.1
    assert after[before & known].mean() >= 0.93


@pytest.mark.parametrize("hertz", [95.0, 107.0, 180.0])
def test_a_note_that_is_held_all_the_time_is_no_hum(hertz: float) -> None:
    found = track(signals.voice(signals.glide(hertz, hertz, 3.0))).hertz[4:-4]
    assert np.max(np.abs(1200 * np.log2(found / hertz))) < 10
