"""Content features, loudness, pitch and retrieval of RVC, as its original tools compute them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

SAMPLE_RATE = 16_000
HOP = 160  # samples per frame of the synthesizer
UNPROTECTED = 0.5
_RECEPTIVE_FIELD = 400  # samples that one feature hears
_STRIDE = 320


def feature_count(samples: int) -> int:
    """Count the features of so many samples at 16 kHz."""
    return max((samples - _RECEPTIVE_FIELD) // _STRIDE + 1, 0)


def frame_count(samples: int) -> int:
    """Count the frames of 10 ms for which so many samples at 16 kHz give features."""
    return min(samples // HOP, 2 * feature_count(samples))


def to_frames(features: Array, frames: int) -> Array:
    """Repeat each feature, so that 50 per second become 100: [T50, C] to [frames, C]."""
    return np.repeat(features, 2, axis=0)[:frames]


def protect_unvoiced(retrieved: Array, heard: Array, hertz: Array, protect: float) -> Array:
    """Take only the share `protect` of the retrieved features [T, C] in frames below 1 Hz.

    Retrieval smears consonants and breath; the rest comes from the features of the recording. A
    share of 0.5 or more protects nothing.
    """
    if protect >= UNPROTECTED:
        return retrieved
    share = np.where(hertz < 1, np.float32(protect), np.float32(1))[:, None]
    protected = retrieved * share + heard * (np.float32(1) - share)
    return protected.astype(np.float32, copy=False)


Array64 = NDArray[np.float64]
Complex = NDArray[np.complex128]

_ORDER = 5
_CUTOFF_HZ = 48
_SAMPLE_RATE = 16_000
_EDGE = 3 * (_ORDER + 1)  # samples by which either end is continued
_BLOCK = 160
_HIGHEST_PEAK = 0.95


def high_pass(samples: NDArray[np.floating]) -> Array64:
    """Remove frequencies below 48 Hz without a shift in phase: [N] at 16 kHz to float64 [N].

    A Butterworth filter of order 5 runs forward and backward. Either end is continued by up to 18
    samples, mirrored through its last sample, and both passes begin in the state into which their
    first sample has settled (Gustafsson, "Determining the initial states in forward-backward
    filtering", 1996). For at least 19 samples the result equals that of SciPy's
    `filtfilt(*butter(5, 48, "high", fs=16000))`.
    """
    wave = np.asarray(samples, np.float64)
    edge = min(_EDGE, len(wave) - 1)
    if edge < 1:
        return np.zeros(len(wave))
    before = 2 * wave[0] - wave[edge:0:-1]
    after = 2 * wave[-1] - wave[-2 : -edge - 2 : -1]
    butterworth = _butterworth()
    forward = butterworth.run(np.concatenate([before, wave, after]))
    backward = butterworth.run(forward[::-1])[::-1]
    return backward[edge : edge + len(wave)]


@dataclass(frozen=True)
class _BlockFilter:
    """A filter as the sum of P first-order ones, computed for a block of B samples at once.

    The sum keeps its precision although the poles lie close to each other and to 1; the states of
    the direct form would lose it over a block. `response` is lower triangular [B, B], `to_state`
    [B, P], `from_state` [P, B], of whose product the real part counts; `decay` and `settled` (after
    an endless input of ones) are [P].
    """

    response: Array64
    to_state: Complex
    from_state: Complex
    decay: Complex
    settled: Complex

    def run(self, samples: Array64) -> Array64:
        blocks = -(-len(samples) // _BLOCK)
        padded = np.zeros(blocks * _BLOCK)
        padded[: len(samples)] = samples
        inputs = padded.reshape(blocks, _BLOCK)
        driven = inputs @ self.to_state
        states = np.empty_like(driven)
        state = self.settled * samples[0]
        for index in range(blocks):
            states[index] = state
            state = self.decay * state + driven[index]
        filtered: Array64 = inputs @ self.response.T + (states @ self.from_state).real
        return filtered.ravel()[: len(samples)]


@lru_cache(maxsize=1)
def _butterworth() -> _BlockFilter:
    """Design the filter by the bilinear transform and split it into partial fractions."""
    angles = np.pi * (np.arange(_ORDER) - (_ORDER - 1) / 2) / _ORDER
    analogue = -np.tan(np.pi * _CUTOFF_HZ / _SAMPLE_RATE) * np.exp(1j * angles)
    poles = (1 + analogue) / (1 - analogue)
    gain = float(np.prod(1 / (1 - analogue)).real)
    others = np.subtract.outer(poles, poles) + np.eye(_ORDER)
    residues = gain * (poles - 1) ** _ORDER / np.prod(others, axis=1)
    steps = np.arange(_BLOCK)
    powers = poles[:, None] ** steps
    impulse = np.concatenate([[gain], (residues @ powers).real[:-1]])
    lags = np.subtract.outer(steps, steps)
    return _BlockFilter(
        response=np.where(lags >= 0, impulse[lags], 0.0),
        to_state=powers[:, ::-1].T,
        from_state=residues[:, None] * powers,
        decay=poles**_BLOCK,
        settled=1 / (1 - poles),
    )


def divide_peak(audio: NDArray[np.floating]) -> NDArray[np.floating]:
    """Turn a recording down if its peak is above 0.95, as the original tools do."""
    return audio / max(float(np.abs(audio).max(initial=0.0)) / _HIGHEST_PEAK, 1.0)


_QUIETEST = np.float32(1e-6)


def loudness_gains(
    recording: NDArray[np.floating],
    recording_rate: int,
    voice: NDArray[np.floating],
    voice_rate: int,
    mix: float,
) -> Array:
    """Compute the gain of each sample of a voice [M], as long in time as the recording [N].

    The gain is (r / v)^(1 - mix), where r and v are the root mean squares of the recording and of
    the voice: over windows of a second, every half second, joined by straight lines. A mix of 1
    keeps the voice's loudness, 0 takes the recording's. Rates are even.
    """
    wanted = half_second_levels(recording, recording_rate, len(voice))
    own = np.maximum(half_second_levels(voice, voice_rate, len(voice)), _QUIETEST)
    gains = wanted ** np.float32(1 - mix) * own ** np.float32(mix - 1)
    return gains.astype(np.float32, copy=False)


def half_second_levels(samples: NDArray[np.floating], rate: int, count: int) -> Array:
    """Root mean square of the second around every half second, stretched; outside is silence."""
    hop = rate // 2
    frames = 1 + len(samples) // hop
    blocks = np.zeros((frames + 1, hop), np.float64)
    blocks.ravel()[hop : hop + len(samples)] = samples
    energies = np.einsum("bs,bs->b", blocks, blocks)
    levels = np.sqrt((energies[:-1] + energies[1:]) / (2 * hop)).astype(np.float32)
    at = (np.arange(count) + 0.5) * (frames / count) - 0.5
    stretched: Array = np.interp(at, np.arange(frames), levels).astype(np.float32)
    return stretched


Unvoiced = Literal["zero", "fill"]

_LOWEST_HZ, _HIGHEST_HZ = 50.0, 1_100.0
_NUMBERS = 255


@dataclass(frozen=True)
class Contour:
    """The pitch of T frames: hertz, 0 if unvoiced, and its step on the mel scale, 1 to 255."""

    hertz: Array
    coarse: NDArray[np.int64]

    def cut(self, first: int, last: int) -> "Contour":
        return Contour(self.hertz[first:last], self.coarse[first:last])


def contour(hertz: Array) -> Contour:
    """Describe a frequency, 0 where unvoiced, float32 [T], in 255 even steps on the mel scale.

    The scale is 1127 ln(1 + f / 700), from 50 Hz to 1100 Hz; all other frames get the nearest
    number.
    """
    hertz = np.asarray(hertz, np.float32)
    lowest, highest = 1127 * np.log(1 + np.array([_LOWEST_HZ, _HIGHEST_HZ]) / 700)
    steps = (1127 * np.log(1 + hertz / 700) - lowest) * (_NUMBERS - 1) / (highest - lowest) + 1
    return Contour(hertz, np.rint(np.clip(steps, 1, _NUMBERS)).astype(np.int64))


def shift(hertz: Array, semitones: float) -> Array:
    moved: Array = (hertz * np.float32(2.0 ** (semitones / 12))).astype(np.float32)
    return moved


def fill_unvoiced(hertz: Array) -> Array:
    """Interpolate unvoiced frames between their voiced neighbours; without any, all stay 0."""
    voiced = np.flatnonzero(hertz > 0)
    if len(voiced) == 0:
        return hertz
    return np.interp(np.arange(len(hertz)), voiced, hertz[voiced]).astype(np.float32)


Places = NDArray[np.intp]
Search = Literal["exact", "cell"]

_NEIGHBOURS = 8
_CANDIDATES = 2 * _NEIGHBOURS  # that a quick search hands on to the precise one
_RETRIEVAL_BLOCK = 8_192  # vectors that are compared at once: 25 MB of them
_QUERIES = 256


class Retrieval:
    """The features of a voice's training, and the search among them; safe for threads.

    Takes features, float16 or float32 [M, C], at least one; the centres of the cells into which
    they are sorted, float32 [K, C]; and the cell of each, [M].
    """

    def __init__(
        self,
        vectors: NDArray[np.floating],
        centroids: NDArray[np.floating],
        cells: NDArray[np.integer],
    ) -> None:
        if vectors.ndim != 2 or len(vectors) == 0:  # noqa: PLR2004 - rows and columns
            raise ValueError(f"vectors: expected [M, C] with at least one, found {vectors.shape}")
        if centroids.ndim != 2 or centroids.shape[1:] != vectors.shape[1:]:  # noqa: PLR2004
            raise ValueError(
                f"centroids: expected [K, {vectors.shape[1]}] as the vectors, found"
                f" {centroids.shape}"
            )
        if cells.shape != (len(vectors),):
            raise ValueError(f"cells: expected one for each vector, found {cells.shape}")
        if cells.min() < 0 or cells.max() >= len(centroids):
            raise ValueError(f"cells: expected 0 to {len(centroids) - 1}, found others")
        order = np.argsort(cells, kind="stable")
        self._vectors = vectors[order]
        self._centroids = np.asarray(centroids, np.float32)
        self._begins = np.searchsorted(cells[order], np.arange(len(centroids) + 1))

    @property
    def width(self) -> int:
        return int(self._vectors.shape[1])

    def mix(self, features: Array, rate: float, search: Search = "exact") -> Array:
        """Mix features, float32 [T, C], with the mean of their eight nearest neighbours.

        The neighbours, which add up to 1, are weighted by the inverse square of their squared
        distance. "exact" searches all vectors; "cell" only the nearest cell, as the original tools
        do (in the terms of Faiss: IVF, Flat with nprobe 1), which misses a third of the neighbours.
        """
        if rate == 0 or len(features) == 0:
            return features
        neighbours = np.empty_like(features)
        for at in range(0, len(features), _QUERIES):
            part = features[at : at + _QUERIES]
            neighbours[at : at + _QUERIES] = (
                self._neighbours_in_cell(part)
                if search == "cell"
                else self._mean_of_nearest(part, 0, len(self._vectors))
            )
        mixed: Array = neighbours * np.float32(rate) + np.float32(1 - rate) * features
        return mixed

    def _neighbours_in_cell(self, features: Array) -> Array:
        places = least_places(score_vectors(features, self._centroids))
        distances = squared_distances(features, self._centroids[places])
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
        distances = squared_distances(features, vectors)
        if places.shape[1] > _NEIGHBOURS:
            kept = np.argpartition(distances, _NEIGHBOURS - 1, axis=1)[:, :_NEIGHBOURS]
            vectors = np.take_along_axis(vectors, kept[:, :, None], axis=1)
            distances = np.take_along_axis(distances, kept, axis=1)
        # Relative to the nearest one nothing overflows, and a distance of 0 leaves only itself.
        nearest = distances.min(axis=1, keepdims=True)
        weights = np.where(distances > 0, nearest / np.where(distances > 0, distances, 1), 1) ** 2
        shares = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        mean: Array = np.einsum("tk,tkc->tc", shares, vectors)
        return mean

    def _candidates(self, features: Array, begin: int, end: int) -> Places:
        """Find about the nearest vectors of each feature, a few more than are wanted: [T, k]."""
        places = np.empty((len(features), 0), np.intp)
        scores = np.empty((len(features), 0), np.float32)
        for first in range(begin, end, _RETRIEVAL_BLOCK):
            block = self._vectors[first : min(first + _RETRIEVAL_BLOCK, end)].astype(np.float32)
            own = score_vectors(features, block)
            here = least_places(own)
            places = np.concatenate([places, here + first], axis=1)
            scores = np.concatenate([scores, np.take_along_axis(own, here, axis=1)], axis=1)
            kept = least_places(scores)
            places = np.take_along_axis(places, kept, axis=1)
            scores = np.take_along_axis(scores, kept, axis=1)
        return places


def score_vectors(features: Array, vectors: Array) -> Array:
    """Compute |v|^2 - 2 f v, a squared distance except for |f|^2: quick, but it rounds. [T, M]."""
    scores: Array = np.einsum("mc,mc->m", vectors, vectors) - 2 * (features @ vectors.T)
    return scores


def least_places(values: Array) -> Places:
    """Find where the least values of each row stand, in no order: [T, up to _CANDIDATES]."""
    if values.shape[1] <= _CANDIDATES:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return np.argpartition(values, _CANDIDATES - 1, axis=1)[:, :_CANDIDATES]


def squared_distances(features: Array, vectors: Array) -> Array:
    """Compute the squared distances [T, K] of features [T, C] to K vectors each [T, K, C]."""
    apart = features[:, None] - vectors
    distances: Array = np.einsum("tkc,tkc->tk", apart, apart)
    return distances
