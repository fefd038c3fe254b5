from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.speech.engines.rvc import PADDING, plan_phrases
from shared.speech.engines.rvc_signal import (
    Retrieval,
    contour,
    feature_count,
    fill_unvoiced,
    frame_count,
    high_pass,
    loudness_gains,
    to_frames,
)

Array = NDArray[np.float32]


@pytest.mark.parametrize(
    ("samples", "features", "frames"), [(399, 0, 0), (400, 1, 2), (719, 1, 2), (720, 2, 4)]
)
def test_features_are_counted_as_the_encoder_makes_them_and_said_twice(
    samples: int, features: int, frames: int
) -> None:
    assert feature_count(samples) == features
    assert frame_count(samples) == frames
    assert to_frames(np.array([[1], [3]], np.float32), 3).tolist() == [[1], [1], [3]]


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
    for shorter in (0, 1, 2, 18):  # than the edges
        assert high_pass(signal(shorter)).shape == (shorter,)
        assert np.isfinite(high_pass(signal(shorter))).all()


def constant(level: float, rate: int) -> Array:
    return np.full(2 * rate, level, np.float32)


@pytest.mark.parametrize(
    ("recorded", "voice", "mix", "gain"),
    [(0.5, 0.1, 1.0, 1.0), (0.5, 0.1, 0.0, 5.0), (0.4, 0.1, 0.25, 4.0**0.75), (0.1, 0, 1.0, 1.0)],
)
def test_the_mix_is_the_power_of_the_loudness_that_is_taken_from_the_recording(
    recorded: float, voice: float, mix: float, gain: float
) -> None:
    gains = loudness_gains(constant(recorded, 16_000), 16_000, constant(voice, 400), 400, mix)

    assert gains == pytest.approx(np.full(800, gain), rel=1e-5)
    assert gains.dtype == np.float32


def test_the_root_mean_square_is_of_a_second_around_every_half_second() -> None:
    recording = np.random.default_rng(1).standard_normal(37_000)
    centres = range(0, len(recording) + 1, 8_000)
    around = np.pad(recording, 8_000)
    expected = [np.sqrt(np.mean(around[at : at + 16_000] ** 2)) for at in centres]

    # Five values over five hundred samples: the middle of each hundred stands for a value.
    gains = loudness_gains(recording, 16_000, np.ones(500), 200, 0.0)

    at = (250.5 * len(expected) / 500) - 0.5
    assert gains[250] == pytest.approx(np.interp(at, range(len(expected)), expected), rel=1e-5)


def test_the_coarse_numbers_run_from_1_to_255_on_the_mel_scale() -> None:
    mels = np.linspace(1127 * np.log(1 + 50 / 700), 1127 * np.log(1 + 1100 / 700), 255)
    frequencies = [*(700 * (np.exp(mels / 1127) - 1)), 0, 20, 2_000]

    told = contour(np.array(frequencies, np.float32))

    assert told.coarse.tolist() == [*range(1, 256), 1, 1, 255]
    assert told.coarse.dtype == np.int64
    piece = told.cut(254, 256)
    assert piece.coarse.tolist() == [255, 1]
    assert piece.hertz == pytest.approx([1_100, 0])


def test_unvoiced_frames_get_a_frequency_between_their_neighbours() -> None:
    filled = fill_unvoiced(np.array([0, 100, 0, 0, 130, 0], np.float32))

    assert filled.tolist() == [100, 100, 110, 120, 130, 130]
    assert filled.dtype == np.float32
    assert fill_unvoiced(np.zeros(2, np.float32)).tolist() == [0, 0]


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


@pytest.mark.parametrize("count", [3, 8, 9, 20_000])
def test_an_exact_search_averages_the_eight_nearest_and_mixes_them_in_by_the_rate(
    count: int,
) -> None:
    vectors, features = draw(count, 6), draw(300, 6, seed=1)
    retrieval = one_cell(vectors)

    mixed = retrieval.mix(features, 1.0)

    for feature, mean in list(zip(features, mixed, strict=True))[::29]:
        assert mean == pytest.approx(expected_mean(vectors, feature), abs=2e-5)
    assert retrieval.mix(features, 0.25) == pytest.approx(0.25 * mixed + 0.75 * features, abs=1e-5)
    assert retrieval.mix(features, 0.0) is features
    halved = Retrieval(vectors.astype(np.float16), vectors[:1], np.zeros(count, np.int64))
    assert halved.mix(features, 0.5) == pytest.approx(0.5 * mixed + 0.5 * features, abs=0.02)


@pytest.mark.parametrize("search", ["exact", "cell"])
def test_a_feature_that_is_among_the_vectors_finds_itself_even_twice(
    search: Literal["exact", "cell"],
) -> None:
    vectors = np.concatenate([draw(9, 4), draw(9, 4)])

    assert one_cell(vectors).mix(vectors[:2], 1.0, search) == pytest.approx(vectors[:2])


def test_a_search_in_a_cell_looks_only_at_its_vectors() -> None:
    left, right = draw(30, 4), draw(5, 4, seed=1) + 9
    order = np.random.default_rng(2).permutation(35)
    centroids = np.stack([left.mean(axis=0), right.mean(axis=0), np.full(4, 99)])
    retrieval = Retrieval(
        np.concatenate([left, right])[order], centroids, np.repeat([0, 1], [30, 5])[order]
    )
    features = np.stack([np.full(4, value, np.float32) for value in (4, 5, 98)])

    mixed = retrieval.mix(features, 1.0, "cell")

    assert mixed[0] == pytest.approx(expected_mean(left, features[0]), abs=1e-4)
    assert mixed[1] == pytest.approx(expected_mean(right, features[1]), abs=1e-4)
    assert mixed[2].tolist() == features[2].tolist(), "its cell is empty"


def phrases(*frames: int, longest: int = 1_000) -> list[list[tuple[int, int]]]:
    """Plan pauses and speech, which alternate for so many frames; return the pieces' own frames."""
    speech = np.repeat(np.arange(len(frames)) % 2 == 1, frames)
    planned = plan_phrases(speech, np.zeros(len(speech), np.float32), longest)
    for piece in (piece for phrase in planned for piece in phrase):
        assert piece.begin - piece.first == piece.last - piece.end == PADDING
        assert piece.first >= 0
    return [[(piece.begin - PADDING, piece.end - PADDING) for piece in each] for each in planned]


def test_phrases_are_what_lies_between_long_pauses_on_a_grid_and_within_the_recording() -> None:
    assert phrases(100) == []
    assert phrases(20, 100, 30) == [[(20, 120)]]
    assert phrases(0, 50, 39, 50) == [[(0, 139)]]
    assert phrases(0, 50, 50, 50) == [[(0, 50)], [(100, 150)]]
    assert phrases(17, 36, 93, 8) == [[(10, 60)], [(140, 154)]]
    assert len(phrases(0, 300, 90, 50, longest=100)[0]) >= 3


def test_long_speech_is_cut_at_its_quietest_frame() -> None:
    levels = np.full(250, -20, np.float32)
    levels[73:88] = -60

    (pieces,) = plan_phrases(np.ones(250, np.bool_), levels, 100)

    assert pieces[0].end - PADDING == 80
    assert [piece.begin for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert max(piece.end - piece.begin for piece in pieces) <= 100
