"""Pieces that are converted ahead, and the pauses after which they are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.speech.engines.interface import EarlyPieces, EarlySamples
from shared.speech.signal.streaming import PAUSE_FRAMES, Pauses
from tests.unit.signal import signals

RATE = signals.RATE
HOP = RATE // 100
PAUSE = PAUSE_FRAMES / 100


def sound(value: float) -> EarlySamples:
    return np.full(3, value, np.float32)


def test_a_piece_is_converted_once_for_one_source() -> None:
    ahead = EarlyPieces()

    first = ahead.piece(b"source", lambda: sound(1))
    again = ahead.piece(b"source", lambda: sound(2))
    other = ahead.piece(b"another", lambda: sound(3))

    assert (first[0], again[0], other[0]) == (1, 1, 3)


def test_who_asks_meanwhile_waits_for_the_piece() -> None:
    ahead, begun, may_end = EarlyPieces(), Event(), Event()

    def slowly() -> EarlySamples:
        begun.set()
        assert may_end.wait(30)
        return sound(1)

    def nothing() -> EarlySamples:
        raise AssertionError("it is being converted already")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(ahead.piece, b"source", slowly)
        assert begun.wait(30)
        second = threads.submit(ahead.piece, b"source", nothing)
        may_end.set()

        assert first.result(30)[0] == second.result(30)[0] == 1


def test_a_piece_that_failed_is_converted_again() -> None:
    ahead = EarlyPieces()

    def fail() -> EarlySamples:
        raise MemoryError

    with pytest.raises(MemoryError):
        ahead.piece(b"source", fail)

    assert ahead.piece(b"source", lambda: sound(2))[0] == 2


def word(seconds: float = 0.5) -> EarlySamples:
    return signals.voice(signals.glide(150, 150, seconds))


def pauses_at(recording: EarlySamples, step: int) -> list[float]:
    """After how many seconds pauses are told of, if so many samples come at a time."""
    pauses = Pauses(RATE)
    pieces = range(0, len(recording), step)
    return [(at + step) / RATE for at in pieces if pauses.push(recording[at : at + step])]


def test_each_pause_is_told_once() -> None:
    pause = signals.silence(PAUSE + 0.5)
    recording = np.concatenate([word(), pause, word(), pause])

    first, second = pauses_at(recording, HOP)

    assert first == pytest.approx(0.5 + PAUSE, abs=0.02)
    assert second == pytest.approx(0.5 + PAUSE + 0.5 + 0.5 + PAUSE, abs=0.02)


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(signals.silence(3), id="silence"),
        pytest.param(word(3), id="no pause"),
        pytest.param(
            np.concatenate([word(), signals.silence(PAUSE - 0.1), word()]), id="a short pause"
        ),
        pytest.param(signals.level(signals.hiss(3), -65), id="a quiet hiss"),
    ],
)
def test_where_nobody_pauses_there_is_no_pause(recording: EarlySamples) -> None:
    assert pauses_at(recording, 480) == []


def test_a_noisy_pause_is_a_pause() -> None:
    recording = np.concatenate([word(), signals.silence(1.5)])
    recording += signals.level(signals.hiss(2), -50)[: len(recording)]

    assert len(pauses_at(recording, 960)) == 1


@given(step=st.integers(1, RATE))
@settings(deadline=None, max_examples=20)
def test_it_does_not_matter_how_the_recording_is_cut(step: int) -> None:
    recording = np.concatenate([word(), signals.silence(3)])

    (at,) = pauses_at(recording, step)

    assert 0.5 + PAUSE <= at <= 0.52 + PAUSE + step / RATE
