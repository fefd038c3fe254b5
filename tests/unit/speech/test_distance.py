from __future__ import annotations

import numpy as np
import pytest

from shared.speech.signal.samples import resample
from tests.unit.signal import signals
from tests.unit.speech.distance import RATE, distance

VOICE = signals.with_noise(
    resample(signals.voice(signals.glide(120, 160, 3.0)), signals.RATE, RATE), 20.0
)


def test_a_voice_is_at_no_distance_from_itself() -> None:
    assert distance(VOICE, VOICE) == (0, 0, 0)


def test_a_quieter_voice_differs_in_its_level_alone() -> None:
    found = distance(VOICE, VOICE * np.float32(0.5))

    assert found.level_after == pytest.approx(6.0, abs=0.3)
    assert found.envelope_after < found.level_after / 3


def test_another_timbre_after_the_first_second_is_a_distance_after_it() -> None:
    duller = np.convolve(VOICE, np.ones(8) / 8, "same").astype(np.float32)
    found = distance(VOICE, np.concatenate([VOICE[: RATE + 2400], duller[RATE + 2400 :]]))

    assert found.envelope_after > 3 > found.envelope_first
