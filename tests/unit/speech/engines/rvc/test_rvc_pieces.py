from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from speech.engines.rvc.pieces import PADDING, is_complete, plan_phrases

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from speech.signal.chunks import Chunk


def spoken(*parts: tuple[int, bool]) -> NDArray[np.bool_]:
    return np.concatenate([np.full(frames, is_speech) for frames, is_speech in parts])


def plan_pieces(
    speech: NDArray[np.bool_], levels: NDArray[np.float32], longest: int
) -> list[Chunk]:
    return [piece for phrase in plan_phrases(speech, levels, longest) for piece in phrase]


def own_frames(speech: NDArray[np.bool_], longest: int) -> list[tuple[int, int]]:
    pieces = plan_pieces(speech, np.zeros(len(speech), np.float32), longest)
    return [(piece.begin - PADDING, piece.end - PADDING) for piece in pieces]


def test_silence_makes_no_pieces() -> None:
    assert own_frames(spoken((100, False)), 1_000) == []


def test_a_piece_begins_and_ends_with_the_speech() -> None:
    assert own_frames(spoken((20, False), (100, True), (30, False)), 1_000) == [(20, 120)]


@pytest.mark.parametrize(
    ("pause", "expected"),
    [(39, [(0, 139)]), (50, [(0, 50), (100, 150)])],
)
def test_only_a_long_pause_is_left_out(pause: int, expected: list[tuple[int, int]]) -> None:
    assert own_frames(spoken((50, True), (pause, False), (50, True)), 1_000) == expected


def test_phrases_begin_and_end_on_a_grid_and_within_the_recording() -> None:
    assert own_frames(spoken((17, False), (36, True), (93, False), (8, True)), 1_000) == [
        (10, 60),
        (140, 154),
    ]


def test_a_phrase_is_complete_when_what_follows_belongs_to_another_one() -> None:
    (phrase,) = plan_phrases(spoken((100, True)), np.zeros(100, np.float32))

    assert not is_complete(phrase, 100 + 51)
    assert is_complete(phrase, 100 + 52)


def test_every_piece_has_its_context_on_both_sides() -> None:
    speech = spoken((300, True), (90, False), (50, True))

    for piece in plan_pieces(speech, np.zeros(len(speech), np.float32), 100):
        assert piece.begin - piece.first == PADDING
        assert piece.last - piece.end == PADDING
        assert piece.first >= 0


def test_long_speech_is_cut_at_its_quietest_frame() -> None:
    levels = np.full(250, -20, np.float32)
    levels[73:88] = -60

    pieces = plan_pieces(np.full(250, fill_value=True), levels, 100)

    assert pieces[0].end - PADDING == 80
    assert [piece.begin for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert max(piece.end - piece.begin for piece in pieces) <= 100
