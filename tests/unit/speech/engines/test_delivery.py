from __future__ import annotations

import numpy as np
import pytest

from speech.engines.delivery import deliver, trim
from speech.engines.speaking import SpeechOptions

RATE = 1_000
OPTIONS = SpeechOptions(silence_before=0.2, silence_after=0.3)


def tone(level: float, seconds: float = 0.5) -> np.ndarray:
    times = np.arange(round(seconds * RATE)) / RATE
    return (level * np.sin(2 * np.pi * 50 * times + 0.5)).astype(np.float32)


def test_the_silences_stand_where_they_were_asked_for() -> None:
    first, second, after = deliver([tone(1), tone(1)], RATE, OPTIONS, 0.1)

    assert (len(first), len(second), len(after)) == (700, 600, 300)
    assert not first[:200].any()
    assert not second[:100].any()
    assert not after.any()


def test_pauses_are_as_long_as_was_asked_for() -> None:
    _, second, _ = deliver([tone(1), tone(1)], RATE, SpeechOptions(pause=3.0), 0.1)

    assert len(second) == 800


def test_later_pieces_keep_their_level_beside_the_first() -> None:
    first, second, _ = deliver([tone(0.02), tone(0.01)], RATE, OPTIONS, 0.0)

    assert np.abs(first).max() == pytest.approx(0.99, abs=0.02)
    assert np.abs(second).max() == pytest.approx(0.5, abs=0.02)


def test_a_later_piece_that_is_louder_is_turned_down() -> None:
    first, second, third, _ = deliver([tone(0.1), tone(0.4), tone(0.1)], RATE, OPTIONS, 0.0)

    assert np.abs(second).max() == pytest.approx(0.99, abs=0.02)
    assert np.abs(third).max() == pytest.approx(0.25, abs=0.02)
    assert np.abs(first).max() <= 1.0


def test_a_piece_of_silence_is_left_out() -> None:
    pieces = list(deliver([np.zeros(500, np.float32), tone(1)], RATE, OPTIONS, 0.1))

    assert [len(piece) for piece in pieces] == [700, 300]


def test_nothing_but_silence_is_the_silence_after() -> None:
    (only,) = deliver([np.zeros(500, np.float32)], RATE, OPTIONS, 0.1)

    assert len(only) == 300


def test_silence_is_trimmed_but_soft_beginnings_stay() -> None:
    silence = np.zeros(300, np.float32)

    assert len(trim(np.concatenate([silence, tone(1), silence]), RATE)) == 540
    assert len(trim(silence, RATE)) == 0
