from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from speech.engines.rvc.retrieval import Retrieval

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
