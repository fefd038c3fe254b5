"""Pieces that are converted ahead, and the pauses after which they are."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.speech.engines.interface import EarlyPieces
from shared.speech.signal.sound import Samples
from shared.speech.signal.streaming import PAUSE_FRAMES, Pauses
from tests.unit.signal import signals

RATE = signals.RATE

PAUSE = PAUSE_FRAMES / 100


def sound(value: float) -> Samples:
    return np.full(3, value, np.float32)


def test_a_piece_is_converted_once_for_one_source() -> None:
    ahead = EarlyPieces()

    first = ahead.piece(b"source", lambda: sound(1))
    again = ahead.piece(b"source", lambda: sound(2))
    other = ahead.piece(b"another", lambda: sound(3))

    assert (first[0], again[0], other[0]) == (1, 1, 3)


def test_who_asks_meanwhile_waits_for_the_piece() -> None:
    ahead, begun, may_end = EarlyPieces(), Event(), Event()

    def slowly() -> Samples:
        begun.set()
        assert may_end.wait(30)
        return sound(1)

    def nothing() -> Samples:
        raise AssertionError("it is being converted already")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(ahead.piece, b"source", slowly)
        assert begun.wait(30)
        second = threads.submit(ahead.piece, b"source", nothing)
        may_end.set()

        assert first.result(30)[0] == second.result(30)[0] == 1


def test_a_piece_that_failed_is_converted_again() -> None:
    ahead = EarlyPieces()

    def fail() -> Samples:
        raise MemoryError

    with pytest.raises(MemoryError):
        ahead.piece(b"source", fail)

    assert ahead.piece(b"source", lambda: sound(2))[0] == 2


WORD = signals.voice(signals.glide(150, 150, 0.5))


def pauses_at(recording: Samples, step: int) -> list[float]:
    """After how many seconds pauses are told of, if so many samples come at a time."""
    pauses = Pauses(RATE)
    pieces = range(0, len(recording), step)
    return [(at + step) / RATE for at in pieces if pauses.push(recording[at : at + step])]


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(signals.silence(3), id="silence"),
        pytest.param(np.tile(WORD, 6), id="no pause"),
        pytest.param(np.concatenate([WORD, signals.silence(PAUSE - 0.1), WORD]), id="a short one"),
        pytest.param(signals.level(signals.hiss(3), -65), id="a quiet hiss"),
    ],
)
def test_where_nobody_pauses_there_is_no_pause(recording: Samples) -> None:
    assert pauses_at(recording, 480) == []


@given(step=st.integers(1, RATE // 4), hiss=st.sampled_from([-100, -50]))
@settings(deadline=None, max_examples=20)
def test_each_pause_is_told_once_however_the_recording_is_cut(step: int, hiss: float) -> None:
    recording = np.concatenate([WORD, signals.silence(PAUSE + 0.5)] * 2)
    recording += signals.level(signals.hiss(10), hiss)[: len(recording)]

    first, second = pauses_at(recording, step)

    assert 0.5 + PAUSE <= first <= 0.52 + PAUSE + step / RATE
    assert second - first == pytest.approx(1 + PAUSE, abs=0.02 + step / RATE)
