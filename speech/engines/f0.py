"""Fundamental frequency and voicing of speech, in numpy."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from speech.engines.levels import ranked
from speech.engines.samples import resample
from speech.engines.viterbi import cheapest_path

Array = NDArray[np.float32]
Path = NDArray[np.intp]

SAMPLE_RATE = 16_000
HOP = 160

LOWEST_HZ = 55.0
HIGHEST_HZ = 650.0

# Above 3.6 kHz speech is more noise than harmonics. Half the sample rate is enough for the rest,
# but lags are still counted in samples of 16 kHz.
_HEARD_HZ = 3_600
_HEARD_RATE = 8_000
_WINDOW = 320
_FFT = 512
_BINS = int(_HEARD_HZ / _HEARD_RATE * _FFT)
_FIRST_LAG = int(SAMPLE_RATE / HIGHEST_HZ)
_LAGS = np.arange(_FIRST_LAG - 1, int(SAMPLE_RATE / LOWEST_HZ) + 3)
_BLOCK = 64  # frames processed at once, so that they fit into the processor's cache

_CANDIDATES = 5
_WEAKEST = 0.1  # a lower peak is no candidate
_STRONGER_THAN_ANY = 2.0
_ABSENT = -9.0  # the strength of a place in the table without a candidate

# The weights of the path, in units of correlation, chosen by measurements on speech of known f0:
# clean, in noise, over a telephone and in a room.
_OCTAVE_COST = 0.005
_JUMP_COST = 0.5
_HIGHEST_JUMP_COST = 0.6
_VOICING_CHANGE_COST = 0.2
_VOICING_THRESHOLD = 0.21
_SILENCE = 0.008
_REGISTER_COST = 0.3
_REGISTER_OCTAVES = 0.4


@dataclass(frozen=True)
class F0Track:
    """The fundamental frequency every 10 ms; frame t is centred at sample 160 t (16 kHz).

    Attributes:
        hertz: float32 [T]; 0 where the frame is not voiced.
        voicing: float32 [T]; 1 where the frame is voiced, otherwise 0.
    """

    hertz: Array
    voicing: Array


@dataclass(frozen=True)
class _Candidates:
    """The likeliest periods of each frame.

    Attributes:
        octaves: log2 of the frequency in hertz, float32 [T, K].
        strengths: correlation at that period, about 0..1, float32 [T, K].
        levels: magnitude of the frame, float32 [T].
    """

    octaves: Array
    strengths: Array
    levels: Array


def track(wave: Array) -> F0Track:
    """Follow the fundamental frequency of one speaker.

    Candidates are the peaks of an autocorrelation divided by that of the window, and the path
    through them weighs strength against octave jumps and changes of voicing (Boersma, "Accurate
    short-term analysis of the fundamental frequency and the harmonics-to-noise ratio of a sampled
    sound", 1993). The autocorrelation is the generalised one, from the magnitude instead of the
    power spectrum, so that a strong formant or a missing fundamental has less influence (Tolonen
    and Karjalainen, 2000). Candidates far from the speaker's register, the median of the strongest
    candidates, count less (after De Looze and Hirst, 2008), which removes the remaining octave
    errors.

    Args:
        wave: mono audio at 16 kHz without offset, any level, float32 [N].

    Returns:
        One frame for every 160 samples: T = ceil(N / 160).
    """
    frames = -(-len(wave) // HOP)
    if frames == 0:
        nothing = np.zeros(0, np.float32)
        return F0Track(nothing, nothing)
    candidates = _find_candidates(wave, frames)
    chosen = _choose(candidates, _favour_register(candidates))
    octaves, voiced = _follow(candidates, chosen)
    hertz = np.where(voiced, np.exp2(octaves), 0.0)
    return F0Track(hertz.astype(np.float32), voiced.astype(np.float32))


def _find_candidates(wave: Array, frames: int) -> _Candidates:
    correlations, totals, levels = _correlate(wave, frames)
    rows, octaves, heights = _peaks(correlations, totals)
    strengths = heights + _OCTAVE_COST * (octaves - np.log2(LOWEST_HZ))
    return _Candidates(*_strongest(rows, octaves, strengths, frames), levels)


def _correlate(wave: Array, frames: int) -> tuple[Array, Array, Array]:
    """Correlate each frame with itself.

    Returns:
        Correlations at the lags of _LAGS [T, lags], correlations at lag 0 [T], and magnitudes of
        the frames [T].
    """
    hop = HOP * _HEARD_RATE // SAMPLE_RATE
    heard = resample(wave, SAMPLE_RATE, _HEARD_RATE)
    padded = np.zeros(len(heard) + 2 * _WINDOW + hop, np.float32)
    padded[_WINDOW // 2 : _WINDOW // 2 + len(heard)] = heard
    every = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::hop][:frames]
    window, cosines = _analysis_window(), _inverse_transform()
    block = np.zeros((_BLOCK, _FFT), np.float32)
    correlations = np.empty((frames, len(_LAGS)), np.float32)
    magnitudes = np.empty((frames, _BINS), np.float32)
    for first in range(0, frames, _BLOCK):
        some = slice(first, first + _BLOCK)
        count = len(every[some])
        np.multiply(every[some], window, out=block[:count, :_WINDOW])
        np.abs(np.fft.rfft(block[:count])[:, :_BINS], out=magnitudes[some])
        # With few bins and few lags, a matrix product is faster than a transform.
        np.matmul(magnitudes[some], cosines, out=correlations[some])
    magnitudes[:, 0] /= 2
    totals = magnitudes.sum(axis=1)
    return correlations, totals, np.sqrt(np.einsum("tb,tb->t", magnitudes, magnitudes))


@lru_cache(maxsize=1)
def _analysis_window() -> Array:
    return np.hanning(_WINDOW + 2)[1:-1].astype(np.float32)


@lru_cache(maxsize=1)
def _inverse_transform() -> Array:
    """The cosines [bins, lags] that turn a spectrum into its correlation, up to a factor.

    They include the division by the window's own correlation.
    """
    window = np.hanning(_WINDOW * SAMPLE_RATE // _HEARD_RATE + 2)[1:-1]
    own = np.correlate(window, window, "full")[len(window) - 1 :]
    seconds, hertz = _LAGS / SAMPLE_RATE, np.arange(_BINS) * _HEARD_RATE / _FFT
    cosines = np.cos(2 * np.pi * np.outer(hertz, seconds)) * (own[0] / own[_LAGS])
    cosines[0] /= 2  # all other bins also stand for their mirror images
    table: Array = cosines.astype(np.float32)
    return table


def _peaks(correlations: Array, totals: Array) -> tuple[Path, Array, Array]:
    """Find the peaks of all rows, refined by a parabola: row, log2 Hz and height of each."""
    here = correlations[:, 1:-1]
    is_peak = here > correlations[:, :-2]
    is_peak &= here >= correlations[:, 2:]
    is_peak &= here > (_WEAKEST * totals + np.float32(1e-20))[:, None]
    rows, columns = np.divmod(np.flatnonzero(is_peak), here.shape[1])
    at = rows * correlations.shape[1] + columns
    left, middle, right = (correlations.ravel()[at + place] for place in range(3))
    shift = 0.5 * (left - right) / (left - 2 * middle + right)
    octaves = np.log2(SAMPLE_RATE / (_LAGS[columns + 1] + shift)).astype(np.float32)
    heights = (middle - 0.25 * (left - right) * shift) / totals[rows]
    return rows, octaves, np.minimum(heights, 1.0)


def _strongest(rows: Path, octaves: Array, strengths: Array, count: int) -> tuple[Array, Array]:
    """Put each row's strongest peaks into a table: their octaves and strengths, [T, K] each."""
    order = np.argsort(rows - strengths / _STRONGER_THAN_ANY)
    peaks_in_row = np.bincount(rows, minlength=count)
    first_of_row = np.cumsum(peaks_in_row) - peaks_in_row
    place = np.arange(len(rows)) - np.repeat(first_of_row, peaks_in_row)
    kept = place < _CANDIDATES
    order, cells = order[kept], rows[kept] * _CANDIDATES + place[kept]
    octave_table = np.full((count, _CANDIDATES), np.log2(LOWEST_HZ), np.float32)
    strength_table = np.full((count, _CANDIDATES), _ABSENT, np.float32)
    octave_table.ravel()[cells] = octaves[order]
    strength_table.ravel()[cells] = strengths[order]
    return octave_table, strength_table


def _favour_register(candidates: _Candidates) -> Array:
    """Weaken the candidates that lie far from the median of each voiced frame's strongest."""
    is_voiced = candidates.strengths[:, 0] > _unvoiced(candidates)
    if not is_voiced.any():
        return candidates.strengths
    register = np.float32(ranked(candidates.octaves[is_voiced, 0], 0.5))
    beyond = np.abs(candidates.octaves - register) - np.float32(_REGISTER_OCTAVES)
    favoured: Array = candidates.strengths - _REGISTER_COST * np.maximum(beyond, 0.0)
    return favoured


def _choose(candidates: _Candidates, strengths: Array) -> Path:
    """Find the best path [T] through the candidates; the state after the last means unvoiced."""
    local = -np.concatenate([strengths.T, _unvoiced(candidates)[None]])
    return cheapest_path(local[:, 0], _moves(candidates) + local[None, :, 1:])


def _moves(candidates: _Candidates) -> Array:
    """Compute the cost of going from each state to each other at every step [K+1, K+1, T-1]."""
    octaves = np.ascontiguousarray(candidates.octaves.T)
    steps = np.full(
        (_CANDIDATES + 1, _CANDIDATES + 1, octaves.shape[1] - 1), _VOICING_CHANGE_COST, np.float32
    )
    jumps = steps[:-1, :-1]
    np.subtract(octaves[:, None, :-1], octaves[None, :, 1:], out=jumps)
    np.abs(jumps, out=jumps)
    jumps *= np.float32(_JUMP_COST)
    np.minimum(jumps, np.float32(_HIGHEST_JUMP_COST), out=jumps)
    steps[-1, -1] = 0.0
    return steps


def _unvoiced(candidates: _Candidates) -> Array:
    """Compute how strong a candidate must be for the frame to be voiced: [T]."""
    return np.float32(_VOICING_THRESHOLD) + _quietness(candidates.levels)


def _quietness(levels: Array) -> Array:
    """Compute how quiet each frame is, from 0 (speech) to 2 (silence): [T]."""
    power = levels**2
    speech = np.sqrt((power**2).sum() / max(float(power.sum()), 1e-20))
    quietness: Array = np.maximum(0.0, 2.0 - levels / max(float(speech), 1e-9) / _SILENCE)
    return quietness.astype(np.float32)


def _follow(candidates: _Candidates, path: Path) -> tuple[Array, NDArray[np.bool_]]:
    """Read the log2 frequencies along a path [T], and where it is voiced [T]."""
    frames = np.arange(len(path))
    return candidates.octaves[frames, np.minimum(path, _CANDIDATES - 1)], path < _CANDIDATES
