"""Retrieval: mixes the speaker's features with similar ones from the voice's training."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Places = NDArray[np.intp]
Search = Literal["exact", "cell"]

_NEIGHBOURS = 8
_CANDIDATES = 2 * _NEIGHBOURS  # that a quick search hands on to the precise one
_BLOCK = 8_192  # vectors that are compared at once: 25 MB of them
_QUERIES = 256


class Retrieval:
    """The features of a voice's training, and the search among them; safe for threads.

    Args:
        vectors: features, float16 or float32 [M, C], at least one.
        centroids: the centres of the cells into which the vectors are sorted, float32 [K, C].
        cells: the cell of each vector, [M].

    Raises:
        ValueError: the arrays do not fit each other.
    """

    def __init__(
        self,
        vectors: NDArray[np.floating],
        centroids: NDArray[np.floating],
        cells: NDArray[np.integer],
    ) -> None:
        _check_arrays(vectors, centroids, cells)
        order = np.argsort(cells, kind="stable")
        self._vectors = vectors[order]
        self._centroids = np.asarray(centroids, np.float32)
        self._begins = np.searchsorted(cells[order], np.arange(len(centroids) + 1))

    @property
    def width(self) -> int:
        """How many values a feature has."""
        return int(self._vectors.shape[1])

    def mix(self, features: Array, rate: float, search: Search = "exact") -> Array:
        """Mix features with the mean of their eight nearest neighbours.

        The neighbours are weighted by the inverse square of their squared distance. A feature that
        is itself among the vectors has that one as its only neighbour.

        Args:
            features: float32 [T, C].
            rate: share of the neighbours, 0 to 1.
            search: "exact" looks at all vectors; "cell" only at those of the nearest cell, as the
                original tools do (in the terms of Faiss: IVF, Flat with nprobe 1), which misses
                about a third of the neighbours.

        Returns:
            float32 [T, C].
        """
        if rate == 0 or len(features) == 0:
            return features
        find = self._neighbours_in_cell if search == "cell" else self._neighbours
        neighbours = np.concatenate(
            [find(features[at : at + _QUERIES]) for at in range(0, len(features), _QUERIES)]
        )
        mixed: Array = neighbours * np.float32(rate) + np.float32(1 - rate) * features
        return mixed

    def _neighbours(self, features: Array) -> Array:
        return self._mean_of_nearest(features, 0, len(self._vectors))

    def _neighbours_in_cell(self, features: Array) -> Array:
        places = _least(_scores(features, self._centroids))
        distances = _squared_distances(features, self._centroids[places])
        nearest = places[np.arange(len(features)), np.argmin(distances, axis=1)]
        means = np.empty_like(features)
        for cell in np.unique(nearest):
            begin, end = self._begins[cell : cell + 2]
            asking = nearest == cell
            means[asking] = self._mean_of_nearest(features[asking], int(begin), int(end))
        return means

    def _mean_of_nearest(self, features: Array, begin: int, end: int) -> Array:
        """Average the nearest of the vectors from `begin` to `end`; without any, keep a feature."""
        if begin == end:
            return features
        places = self._candidates(features, begin, end)
        vectors = self._vectors[places].astype(np.float32)
        distances = _squared_distances(features, vectors)
        if places.shape[1] > _NEIGHBOURS:
            kept = np.argpartition(distances, _NEIGHBOURS - 1, axis=1)[:, :_NEIGHBOURS]
            vectors = np.take_along_axis(vectors, kept[:, :, None], axis=1)
            distances = np.take_along_axis(distances, kept, axis=1)
        mean: Array = np.einsum("tk,tkc->tc", _weights(distances), vectors)
        return mean

    def _candidates(self, features: Array, begin: int, end: int) -> Places:
        """Find about the nearest vectors of each feature, a few more than are wanted: [T, k]."""
        places = np.empty((len(features), 0), np.intp)
        scores = np.empty((len(features), 0), np.float32)
        for first in range(begin, end, _BLOCK):
            block = self._vectors[first : min(first + _BLOCK, end)].astype(np.float32)
            own = _scores(features, block)
            here = _least(own)
            places = np.concatenate([places, here + first], axis=1)
            scores = np.concatenate([scores, np.take_along_axis(own, here, axis=1)], axis=1)
            kept = _least(scores)
            places = np.take_along_axis(places, kept, axis=1)
            scores = np.take_along_axis(scores, kept, axis=1)
        return places


def _check_arrays(
    vectors: NDArray[np.floating], centroids: NDArray[np.floating], cells: NDArray[np.integer]
) -> None:
    if vectors.ndim != 2 or len(vectors) == 0:  # noqa: PLR2004 - rows and columns
        raise ValueError(f"vectors: expected [M, C] with at least one, found {vectors.shape}")
    if centroids.ndim != 2 or centroids.shape[1:] != vectors.shape[1:]:  # noqa: PLR2004
        raise ValueError(
            f"centroids: expected [K, {vectors.shape[1]}] as the vectors, found {centroids.shape}"
        )
    if cells.shape != (len(vectors),):
        raise ValueError(f"cells: expected one for each vector, found {cells.shape}")
    if cells.min() < 0 or cells.max() >= len(centroids):
        raise ValueError(f"cells: expected 0 to {len(centroids) - 1}, found others")


def _scores(features: Array, vectors: Array) -> Array:
    """Compute |v|^2 - 2 f v, a squared distance but for |f|^2: quick, but it rounds. [T, M]."""
    scores: Array = np.einsum("mc,mc->m", vectors, vectors) - 2 * (features @ vectors.T)
    return scores


def _least(values: Array) -> Places:
    """Find where the least values of each row stand, in no order: [T, up to _CANDIDATES]."""
    if values.shape[1] <= _CANDIDATES:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return np.argpartition(values, _CANDIDATES - 1, axis=1)[:, :_CANDIDATES]


def _squared_distances(features: Array, vectors: Array) -> Array:
    """Compute the squared distances [T, K] of features [T, C] to K vectors each [T, K, C]."""
    apart = features[:, None] - vectors
    distances: Array = np.einsum("tkc,tkc->tk", apart, apart)
    return distances


def _weights(distances: Array) -> Array:
    """Weigh neighbours [T, K] by the inverse square of their squared distance; they add up to 1."""
    nearest = distances.min(axis=1, keepdims=True)
    # Relative to the nearest one nothing overflows, and a distance of 0 leaves only itself.
    relative = np.where(distances > 0, nearest / np.where(distances > 0, distances, 1), 1)
    weights = np.square(relative)
    normalised: Array = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return normalised
