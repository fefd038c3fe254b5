import numpy as np
import pytest
from numpy.typing import NDArray

from shared.speech.engines.delivery import SpeechPiece, deliver, to_full_scale, trim
from shared.speech.engines.text_interface import SpeechOptions

RATE = 1_000


def tone(level: float, seconds: float = 0.5) -> NDArray[np.float32]:
    times = np.arange(round(seconds * RATE)) / RATE
    wave: NDArray[np.float32] = (level * np.sin(2 * np.pi * 50 * times + 0.5)).astype(np.float32)
    return wave


def peaks(*levels: float) -> list[float]:
    return [float(np.abs(piece).max()) for piece in to_full_scale(tone(level) for level in levels)]


@pytest.mark.parametrize(("pauses", "pause"), [(1.0, 100), (3.0, 300)])
def test_the_silences_are_at_the_requested_places(pauses: float, pause: int) -> None:
    options = SpeechOptions(silence_before=0.2, silence_after=0.3, pauses=pauses)
    pieces = [SpeechPiece(tone(0.9), pause=0.1), SpeechPiece(tone(0.9), pause=0.1)]

    first, second, after = deliver(pieces, RATE, options)

    assert (len(first), len(second), len(after)) == (700, 500 + pause, 300)
    assert not first[:200].any()
    assert not second[:pause].any()
    assert not after.any()


def test_later_pieces_keep_their_level_beside_the_first_and_do_not_clip() -> None:
    assert peaks(0.02, 0.01) == pytest.approx([1.0, 0.5])
    assert peaks(0.1, 0.4, 0.1) == pytest.approx([1.0, 1.0, 0.25])
    assert peaks(0.0, 0.1, 0.0) == pytest.approx([0.0, 1.0, 0.0])


def test_a_piece_of_silence_is_left_out() -> None:
    silence = SpeechPiece(np.zeros(500, np.float32), 0.1)

    pieces = list(deliver([silence, SpeechPiece(tone(0.9), 0.1), silence], RATE, SpeechOptions()))

    assert [len(piece) for piece in pieces] == [600, 100]


def test_silence_and_hiss_are_trimmed_but_soft_beginnings_stay() -> None:
    silence = np.zeros(300, np.float32)
    hiss = np.random.default_rng(1).normal(0, 5e-4, 300).astype(np.float32)

    # Ten milliseconds stay on either side.
    assert len(trim(np.concatenate([silence, tone(1), silence]), RATE)) == 520
    assert len(trim(np.concatenate([hiss, tone(0.5), hiss]), RATE)) == 520
    assert len(trim(silence, RATE)) == 0
