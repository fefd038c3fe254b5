from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.speech.signal.analysis import CONTEXT, cut_at_pauses
from shared.speech.signal.pitch import SAMPLE_RATE
from shared.speech.signal.streaming import Decimator, SoxResampler, open_resampler

if TYPE_CHECKING:
    from shared.speech.signal.sound import Samples


@given(st.integers(1, 4_000), st.integers(200, 1_000), st.integers(0, 2**32 - 1))
def test_the_pieces_cover_the_recording_once_and_none_is_too_long(
    frames: int, longest: int, seed: int
) -> None:
    levels = np.random.default_rng(seed).uniform(-90, -10, frames).astype(np.float32)
    chunks = cut_at_pauses(levels, longest)
    assert chunks[0].begin == chunks[0].first == 0
    assert chunks[-1].end == chunks[-1].last == frames
    for before, after in pairwise(chunks):
        assert before.end == after.begin
    for chunk in chunks:
        assert 0 < chunk.end - chunk.begin <= longest
        assert chunk.first == max(chunk.begin - CONTEXT, 0)
        assert chunk.last == min(chunk.end + CONTEXT, frames)


def test_a_recording_is_cut_in_its_pauses() -> None:
    levels = np.full(3_000, -20, np.float32)
    for pause in (700, 1_450, 2_300):
        levels[pause - 20 : pause + 20] = -80
    cuts = [chunk.end for chunk in cut_at_pauses(levels, 1_000)[:-1]]
    assert cuts
    assert all(min(abs(cut - pause) for pause in (700, 1_450, 2_300)) <= 15 for cut in cuts)


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
