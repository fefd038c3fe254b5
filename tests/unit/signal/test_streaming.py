"""Bringing a recording that goes on to the rate of the analysis."""

import numpy as np
import pytest

from shared.speech.signal.pitch import SAMPLE_RATE
from shared.speech.signal.sound import Samples
from shared.speech.signal.streaming import Decimator, SoxResampler, open_resampler

MIDDLE = slice(1000, -1000)


def resampled(rate: int, sound: Samples, piece: int) -> Samples:
    resampler = open_resampler(rate)
    cuts = range(0, len(sound), piece)
    pieces = [resampler.push(sound[begin : begin + piece]) for begin in cuts]
    found: Samples = np.concatenate([*pieces, resampler.finish()])
    return found


def tone(hertz: float, rate: int) -> Samples:
    wave: Samples = np.sin(2 * np.pi * hertz / rate * np.arange(rate)).astype(np.float32)
    return wave


@pytest.mark.parametrize("rate", [16_000, 32_000, 44_100, 48_000])
@pytest.mark.parametrize("hertz", [100.0, 1000.0, 6000.0])
def test_what_can_be_heard_comes_through_in_its_place(rate: int, hertz: float) -> None:
    found = resampled(rate, tone(hertz, rate), 1000)
    wanted = tone(hertz, SAMPLE_RATE)

    assert len(found) == len(wanted)
    assert np.abs(found - wanted)[MIDDLE].max() < 2e-3


@pytest.mark.parametrize("hertz", [9000.0, 20_000.0])
def test_what_the_new_rate_cannot_hold_is_removed(hertz: float) -> None:
    assert np.abs(resampled(48_000, tone(hertz, 48_000), 777)[MIDDLE]).max() < 2e-3


def test_browsers_rate_is_given_within_7_ms() -> None:
    resampler = open_resampler(48_000)
    assert isinstance(resampler, Decimator)
    given = 0
    for number in range(1, 101):
        given += len(resampler.push(np.zeros(480, np.float32)))
        assert number * 10 - given / 16 < 7

    assert isinstance(open_resampler(44_100), SoxResampler)
    assert isinstance(open_resampler(8_000), SoxResampler)
