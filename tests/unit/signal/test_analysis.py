from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.speech.engines.harmonic import join_phases
from shared.speech.signal.analysis import CONTEXT, cut_at_pauses, join


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


def test_joined_pieces_of_one_sound_are_that_sound() -> None:
    hop = 24
    sound = np.random.default_rng(0).standard_normal(2_500 * hop).astype(np.float32)
    chunks = cut_at_pauses(np.zeros(2_500, np.float32), 600)
    pieces = [(chunk, sound[chunk.first * hop : chunk.last * hop]) for chunk in chunks]
    assert len(pieces) > 3
    np.testing.assert_allclose(join(pieces, hop), sound, atol=1e-6)


def test_the_pulses_of_one_piece_arrive_where_those_of_the_piece_before_are() -> None:
    random = np.random.default_rng(2)
    f0 = (300 * np.exp(np.cumsum(random.normal(0, 0.01, 2_600)))).clip(180, 600).astype(np.float32)
    chunks = cut_at_pauses(np.zeros(2_600, np.float32), 600)
    contours = join_phases(chunks, f0)
    for index in range(1, len(chunks)):
        before, after = chunks[index - 1], chunks[index]
        passed = phase_at(contours[index - 1], after.begin - before.first)
        arrived = phase_at(contours[index], after.begin - after.first)
        assert abs((passed - arrived + 0.5) % 1 - 0.5) < 0.01


def test_only_the_lead_in_that_nobody_hears_is_bent() -> None:
    f0 = np.linspace(200, 400, 1_500, dtype=np.float32)
    chunks = cut_at_pauses(np.zeros(1_500, np.float32), 600)
    for chunk, contour in zip(chunks, join_phases(chunks, f0), strict=True):
        heard = slice(chunk.begin - chunk.first - 1, None) if chunk.first else slice(None)
        plain = f0[chunk.first : chunk.last]
        np.testing.assert_array_equal(contour[heard], plain[heard])
        assert np.max(np.abs(contour - plain)) < 3, "more than a few hertz would be another note"


def phase_at(contour: np.ndarray, frame: int) -> float:
    """Sum up sample by sample, as the graph does."""
    hop, rate = 240, 24_000
    before = np.concatenate([contour[:1], contour])
    after = np.concatenate([contour, contour[-1:]])
    ramp = np.arange(hop) / hop
    hertz = before[:, None] + (after - before)[:, None] * ramp
    return float(np.sum(hertz.ravel()[: (frame + 1) * hop].astype(np.float64)) / rate)
