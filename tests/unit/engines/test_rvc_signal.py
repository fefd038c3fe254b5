from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.speech.engines.rvc import PADDING, is_complete, plan_phrases
from shared.speech.engines.rvc_signal import (
    Retrieval,
    contour,
    feature_count,
    fill_unvoiced,
    frame_count,
    high_pass,
    loudness_gains,
    protect_unvoiced,
    shift,
    to_frames,
)

if TYPE_CHECKING:
    from shared.speech.signal.analysis import Chunk


@pytest.mark.parametrize(
    ("samples", "features", "frames"),
    [(0, 0, 0), (399, 0, 0), (400, 1, 2), (719, 1, 2), (720, 2, 4), (16_000, 49, 98)],
)
def test_features_are_counted_as_the_encoder_makes_them(
    samples: int, features: int, frames: int
) -> None:
    assert feature_count(samples) == features
    assert frame_count(samples) == frames


def test_each_feature_is_said_twice() -> None:
    features = np.array([[1, 2], [3, 4]], np.float32)

    assert to_frames(features, 4).tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert to_frames(features, 3).tolist() == [[1, 2], [1, 2], [3, 4]]


def test_unvoiced_frames_keep_only_a_share_of_what_was_retrieved() -> None:
    retrieved, heard = np.full((3, 2), 10, np.float32), np.zeros((3, 2), np.float32)
    hertz = np.array([0, 0.9, 100], np.float32)

    protected = protect_unvoiced(retrieved, heard, hertz, 0.25)

    assert protected.tolist() == [[2.5, 2.5], [2.5, 2.5], [10, 10]]
    assert protected.dtype == np.float32


def test_at_one_half_and_more_nothing_is_protected() -> None:
    retrieved, heard = np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)

    assert protect_unvoiced(retrieved, heard, np.zeros(1, np.float32), 0.5) is retrieved


RATE = 16_000
# scipy.signal.filtfilt(*scipy.signal.butter(5, 48, "high", fs=16000), x) of SciPy 1.17, every so
# many samples, for x[n] = cos(0.02 n) + 0.3 sin(1.1 n) + 0.25.
REFERENCE = {
    19: (6, [-0.030114528, 0.014683708, 0.030984402, 0.010363744]),
    160: (40, [0.095384940, 0.111720640, -0.025101815, 0.012642740]),
    1_000: (200, [0.389000395, -0.394674203, -0.009873217, 0.541316864, -0.282415733]),
    48_000: (
        9_000,
        [0.389165331, -0.609069821, 0.115432776, 0.430453146, -0.607098536, 0.305261952],
    ),
}


def signal(length: int) -> NDArray[np.float64]:
    at = np.arange(length)
    wave: NDArray[np.float64] = np.cos(0.02 * at) + 0.3 * np.sin(1.1 * at) + 0.25
    return wave


@pytest.mark.parametrize("length", REFERENCE)
def test_a_filtered_signal_is_scipys(length: int) -> None:
    step, expected = REFERENCE[length]

    filtered = high_pass(signal(length))

    assert len(filtered) == length
    np.testing.assert_allclose(filtered[::step], expected, rtol=0, atol=1e-6)


def test_an_offset_is_removed() -> None:
    assert np.abs(high_pass(np.full(1_000, 0.4, np.float32))).max() < 1e-12


def test_speech_frequencies_pass_without_delay() -> None:
    tone = np.sin(2 * np.pi * 200 * np.arange(RATE) / RATE)

    np.testing.assert_allclose(high_pass(tone)[2_000:-2_000], tone[2_000:-2_000], atol=2e-3)


def test_hum_of_ten_hertz_is_gone() -> None:
    hum = np.sin(2 * np.pi * 10 * np.arange(RATE) / RATE)

    assert np.abs(high_pass(hum)[4_000:-4_000]).max() < 1e-4


@pytest.mark.parametrize("length", [0, 1, 2, 18])
def test_a_recording_shorter_than_the_edges_keeps_its_length(length: int) -> None:
    filtered = high_pass(signal(length))

    assert filtered.shape == (length,)
    assert np.isfinite(filtered).all()


VOICE_RATE = 40_000


def constant(
    level: float, seconds: float, rate: int
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.full(round(seconds * rate), level, np.float32)


def test_a_mix_of_1_keeps_the_loudness_of_the_voice() -> None:
    gains = loudness_gains(
        constant(0.5, 2, 16_000), 16_000, constant(0.1, 2, VOICE_RATE), VOICE_RATE, 1.0
    )

    assert gains == pytest.approx(np.ones(2 * VOICE_RATE))


def test_a_mix_of_0_takes_the_loudness_of_the_recording() -> None:
    gains = loudness_gains(
        constant(0.5, 3, 16_000), 16_000, constant(0.1, 3, VOICE_RATE), VOICE_RATE, 0.0
    )

    assert gains == pytest.approx(np.full(3 * VOICE_RATE, 5.0), rel=1e-5)
    assert gains.dtype == np.float32


def test_a_mix_between_takes_a_power_of_the_ratio() -> None:
    gains = loudness_gains(
        constant(0.4, 2, 16_000), 16_000, constant(0.1, 2, VOICE_RATE), VOICE_RATE, 0.25
    )

    assert gains[VOICE_RATE] == pytest.approx(4.0**0.75, rel=1e-5)


def test_the_root_mean_square_is_of_a_second_around_every_half_second() -> None:
    recording = np.random.default_rng(1).standard_normal(37_000)
    centres = range(0, len(recording) + 1, 8_000)
    around = np.pad(recording, 8_000)
    expected = [np.sqrt(np.mean(around[at : at + 16_000] ** 2)) for at in centres]
    # Five values over five hundred samples: the middle of each hundred stands for a value.
    voice_rate = 200

    gains = loudness_gains(recording, 16_000, np.ones(500), voice_rate, 0.0)
    own = loudness_gains(np.ones(500), voice_rate, np.ones(500), voice_rate, 0.0)

    assert own == pytest.approx(np.ones(500), rel=1e-6)
    middle = gains[250] * 1.0
    at = (250.5 * len(expected) / 500) - 0.5
    assert middle == pytest.approx(np.interp(at, range(len(expected)), expected), rel=1e-5)


def test_a_silent_voice_is_not_divided_by_nothing() -> None:
    gains = loudness_gains(
        constant(0.1, 1, 16_000), 16_000, constant(0, 1, VOICE_RATE), VOICE_RATE, 0.25
    )

    assert np.isfinite(gains).all()


def hertz(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_the_coarse_numbers_run_from_1_to_255_on_the_mel_scale() -> None:
    mels = np.linspace(1127 * np.log(1 + 50 / 700), 1127 * np.log(1 + 1100 / 700), 255)
    frequencies = 700 * (np.exp(mels / 1127) - 1)

    coarse = contour(frequencies.astype(np.float32)).coarse

    assert coarse.tolist() == list(range(1, 256))
    assert coarse.dtype == np.int64


def test_unvoiced_and_out_of_range_frames_get_the_nearest_number() -> None:
    assert contour(hertz(0, 20, 2_000)).coarse.tolist() == [1, 1, 255]


def test_the_contour_keeps_its_hertz() -> None:
    assert contour(hertz(0, 123.4)).hertz.tolist() == hertz(0, 123.4).tolist()


def test_a_piece_of_a_contour_keeps_both_of_its_parts() -> None:
    piece = contour(hertz(0, 50, 1_100, 0)).cut(1, 3)

    assert piece.hertz.tolist() == [50, 1_100]
    assert piece.coarse.tolist() == [1, 255]


@pytest.mark.parametrize(("semitones", "factor"), [(12, 2.0), (-12, 0.5), (0, 1.0)])
def test_a_shift_multiplies_voiced_frames(semitones: float, factor: float) -> None:
    assert shift(hertz(0, 100), semitones).tolist() == [0, 100 * factor]


def test_unvoiced_frames_get_a_frequency_between_their_neighbours() -> None:
    filled = fill_unvoiced(hertz(0, 100, 0, 0, 130, 0))

    assert filled.tolist() == [100, 100, 110, 120, 130, 130]
    assert filled.dtype == np.float32


def test_a_recording_without_voice_stays_unvoiced() -> None:
    assert fill_unvoiced(hertz(0, 0)).tolist() == [0, 0]


Array = NDArray[np.float32]


def draw(count: int, width: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((count, width), np.float32)


def one_cell(vectors: Array) -> Retrieval:
    return Retrieval(vectors, vectors[:1], np.zeros(len(vectors), np.int64))


def expected_mean(vectors: Array, feature: Array) -> Array:
    """Average the eight nearest vectors by the inverse square of the squared distance."""
    distances = np.square(vectors - feature).sum(axis=1)
    nearest = np.argsort(distances)[:8]
    weights = 1 / distances[nearest] ** 2
    mean: Array = weights @ vectors[nearest] / weights.sum()
    return mean


@pytest.mark.parametrize("count", [3, 8, 9, 40, 20_000])
def test_an_exact_search_averages_the_eight_nearest(count: int) -> None:
    vectors, features = draw(count, 6), draw(300, 6, seed=1)

    mixed = one_cell(vectors).mix(features, 1.0)

    for feature, mean in list(zip(features, mixed, strict=True))[::29]:
        assert mean == pytest.approx(expected_mean(vectors, feature), abs=2e-5)


def test_the_rate_is_the_share_of_the_neighbours() -> None:
    vectors, features = draw(20, 4), draw(3, 4, seed=1)
    retrieval = one_cell(vectors)

    mixed = retrieval.mix(features, 0.25)

    assert mixed == pytest.approx(0.25 * retrieval.mix(features, 1.0) + 0.75 * features, abs=1e-6)
    assert mixed.dtype == np.float32


def test_a_rate_of_0_changes_nothing() -> None:
    features = draw(3, 4, seed=1)

    assert one_cell(draw(20, 4)).mix(features, 0.0) is features


@pytest.mark.parametrize("search", ["exact", "cell"])
def test_a_feature_that_is_among_the_vectors_finds_itself(search: str) -> None:
    vectors = draw(20, 4)

    mixed = one_cell(vectors).mix(vectors[3:5], 1.0, "cell" if search == "cell" else "exact")

    assert mixed == pytest.approx(vectors[3:5])


def test_a_vector_that_is_there_twice_is_found_without_a_division_by_0() -> None:
    vectors = np.concatenate([draw(9, 4), draw(9, 4)])

    assert one_cell(vectors).mix(vectors[:2], 1.0) == pytest.approx(vectors[:2])


def test_a_search_in_a_cell_looks_only_at_its_vectors() -> None:
    left, right = draw(30, 4), draw(5, 4, seed=1) + 9
    order = np.random.default_rng(2).permutation(35)
    retrieval = Retrieval(
        np.concatenate([left, right])[order],
        np.stack([left.mean(axis=0), right.mean(axis=0)]),
        np.repeat([0, 1], [30, 5])[order],
    )
    features = np.stack([np.full(4, 4.0), np.full(4, 5.0)]).astype(np.float32)

    mixed = retrieval.mix(features, 1.0, "cell")

    assert mixed[0] == pytest.approx(expected_mean(left, features[0]), abs=1e-4)
    assert mixed[1] == pytest.approx(expected_mean(right, features[1]), abs=1e-4)


def test_a_feature_whose_cell_is_empty_stays_as_it_is() -> None:
    centroids = np.array([[0, 0], [9, 9]], np.float32)
    retrieval = Retrieval(draw(5, 2), centroids, np.zeros(5, np.int64))
    feature = np.array([[9, 8]], np.float32)

    assert retrieval.mix(feature, 1.0, "cell").tolist() == feature.tolist()


def test_vectors_of_half_precision_give_nearly_the_same() -> None:
    vectors, features = draw(50, 8), draw(9, 8, seed=1)
    halved = Retrieval(
        vectors.astype(np.float16), vectors[:1].astype(np.float16), np.zeros(50, np.int64)
    )

    expected = one_cell(vectors).mix(features, 0.5)

    assert halved.mix(features, 0.5) == pytest.approx(expected, abs=5e-3)


@pytest.mark.parametrize(
    ("vectors", "centroids", "cells", "message"),
    [
        (draw(0, 4), draw(1, 4), np.zeros(0, int), "vectors: expected"),
        (draw(2, 4), draw(1, 3), np.zeros(2, int), r"centroids: expected \[K, 4\]"),
        (draw(2, 4), draw(1, 4), np.zeros(3, int), "cells: expected one for each vector"),
        (draw(2, 4), draw(1, 4), np.array([0, 1]), "cells: expected 0 to 0"),
        (draw(2, 4), draw(1, 4), np.array([0, -1]), "cells: expected 0 to 0"),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(
    vectors: Array, centroids: Array, cells: NDArray[np.intp], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Retrieval(vectors, centroids, cells)


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
