from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.speech.signal.analysis import CONTEXT, cut_at_pauses


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
