"""The pitch tracker: the likeliest periods of each frame, and the best path through them."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shared.speech.signal.samples import ranked, resample

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

CANDIDATES = 5
_WEAKEST = 0.1  # a lower peak is no candidate
_STRONGER_THAN_ANY = 2.0
_ABSENT = -9.0  # the strength of a place in the table without a candidate

_OCTAVE_COST = 0.005

STEADY_BINS = 48  # the bins of the spectrum, up to 750 Hz, that may hold a hum
_STEADY_SHARE = 0.06
_STEADY_REMOVED = 2.0
_LOUDEST_STEADY = 0.4
_FEWEST_FRAMES = 12


@dataclass(frozen=True)
class Candidates:
    """The likeliest periods of each frame in log2 Hz, and their correlations, float32 [T, K]."""

    octaves: Array
    strengths: Array
    levels: Array


def find_candidates(magnitudes: Array, hum: Array) -> Candidates:
    """Find the peaks of each frame's autocorrelation, divided by that of the window."""
    speech = magnitudes.copy()
    low = speech[:, :STEADY_BINS]
    np.maximum(low - hum, 0.0, out=low)
    # With few bins and few lags, a matrix product is faster than a transform.
    correlations = speech @ inverse_transform()
    speech[:, 0] /= 2
    rows, octaves, heights = find_peaks(correlations, speech.sum(axis=1))
    strengths = heights + _OCTAVE_COST * (octaves - np.log2(LOWEST_HZ))
    levels = np.sqrt(np.einsum("tb,tb->t", speech, speech))
    return Candidates(*strongest_of_rows(rows, octaves, strengths, len(magnitudes)), levels)


def magnitude_spectra(wave: Array, frames: int) -> Array:
    """Return the magnitudes [T, bins] of 15.625 Hz, of frames 20 ms around sample 160 t."""
    hop = HOP * _HEARD_RATE // SAMPLE_RATE
    heard = resample(wave, SAMPLE_RATE, _HEARD_RATE)
    padded = np.zeros(len(heard) + 2 * _WINDOW + hop, np.float32)
    padded[_WINDOW // 2 : _WINDOW // 2 + len(heard)] = heard
    every = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::hop][:frames]
    window = np.hanning(_WINDOW + 2)[1:-1].astype(np.float32)
    block = np.zeros((_BLOCK, _FFT), np.float32)
    magnitudes = np.empty((frames, _BINS), np.float32)
    for first in range(0, frames, _BLOCK):
        some = slice(first, first + _BLOCK)
        count = len(every[some])
        np.multiply(every[some], window, out=block[:count, :_WINDOW])
        np.abs(np.fft.rfft(block[:count])[:, :_BINS], out=magnitudes[some])
    return magnitudes


def steady_hum(magnitudes: Array, share: float = _STEADY_SHARE) -> Array:
    """Estimate constant hum, such as of mains and fans: its magnitudes [STEADY_BINS].

    It is the level of a bin even in its quietest moments, a `share` of the frames (the minimum
    statistics of R. Martin, "Noise power spectral density estimation based on optimal smoothing and
    minimum statistics", 2001, with a low rank instead of the minimum). A hum nearly as loud as the
    speech is a steady voice, and stays. Takes frames that lie apart, pauses among them.
    """
    low = magnitudes[:, :STEADY_BINS]
    if len(low) < _FEWEST_FRAMES:
        return np.zeros(STEADY_BINS, np.float32)
    rank = int(share * len(low))
    steady = np.partition(low, rank, axis=0)[rank]
    power = np.einsum("tb,tb->t", low, low)
    speech = np.sqrt(np.dot(power, power) / max(float(power.sum()), 1e-20))
    if np.sqrt(np.dot(steady, steady)) > _LOUDEST_STEADY * speech:
        return np.zeros(STEADY_BINS, np.float32)
    hum: Array = steady * np.float32(_STEADY_REMOVED)
    return hum


@lru_cache(maxsize=1)
def inverse_transform() -> Array:
    """The cosines from a spectrum to its correlation, divided by the window's own [bins, lags]."""
    window = np.hanning(_WINDOW * SAMPLE_RATE // _HEARD_RATE + 2)[1:-1]
    own = np.correlate(window, window, "full")[len(window) - 1 :]
    seconds, hertz = _LAGS / SAMPLE_RATE, np.arange(_BINS) * _HEARD_RATE / _FFT
    cosines = np.cos(2 * np.pi * np.outer(hertz, seconds)) * (own[0] / own[_LAGS])
    cosines[0] /= 2  # all other bins also stand for their mirror images
    table: Array = cosines.astype(np.float32)
    return table


def find_peaks(correlations: Array, totals: Array) -> tuple[Path, Array, Array]:
    """Find the peaks of all rows, refined by a parabola: row, log2 Hz and height."""
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


def strongest_of_rows(
    rows: Path, octaves: Array, strengths: Array, count: int
) -> tuple[Array, Array]:
    """Put each row's strongest peaks into a table: their octaves and strengths, [T, K] each."""
    order = np.argsort(rows - strengths / _STRONGER_THAN_ANY)
    peaks_in_row = np.bincount(rows, minlength=count)
    first_of_row = np.cumsum(peaks_in_row) - peaks_in_row
    place = np.arange(len(rows)) - np.repeat(first_of_row, peaks_in_row)
    kept = place < CANDIDATES
    order, cells = order[kept], rows[kept] * CANDIDATES + place[kept]
    octave_table = np.full((count, CANDIDATES), np.log2(LOWEST_HZ), np.float32)
    strength_table = np.full((count, CANDIDATES), _ABSENT, np.float32)
    octave_table.ravel()[cells] = octaves[order]
    strength_table.ravel()[cells] = strengths[order]
    return octave_table, strength_table


Costs = NDArray[np.float32]
States = NDArray[np.intp]

_FEW = 16  # products; up to this many, all sums are computed at once


def cheapest_path(start: Costs, steps: Costs) -> States:
    """Find the state sequence of least total cost (Viterbi, 1967), exactly.

    The cost matrices of two steps are multiplied in the (min, +) semiring. This product is
    associative, so the steps are multiplied as a balanced tree (as in Hillis and Steele's "Data
    parallel algorithms", 1986): a few operations on whole arrays replace a Python loop over the
    steps. The way back needs only the states along the path, so that no product stores where its
    minima were.

    `start` is the cost of each state, [S]; `steps` that of going from state i to j, [S, S, T-1].
    """
    levels = [steps]
    while levels[-1].shape[2] > 1:
        levels.append(multiply_pairs(levels[-1]))
    if steps.shape[2] == 0:
        return np.array([np.argmin(start)])
    whole = start[:, None] + levels[-1][:, :, 0]
    path = np.array(np.unravel_index(np.argmin(whole), whole.shape))
    for level in reversed(levels[:-1]):
        path = fill_in(path, level)
    return path


def multiply_pairs(level: Costs) -> Costs:
    """Multiply each step by the next one; with an odd number, the last one is copied."""
    states, _, count = level.shape
    pairs = count // 2
    first, second = (np.ascontiguousarray(level[:, :, side : 2 * pairs : 2]) for side in (0, 1))
    product = np.empty((states, states, count - pairs), np.float32)
    product[:, :, pairs:] = level[:, :, 2 * pairs :]
    if pairs <= _FEW:
        np.min(first[:, :, None] + second[None], axis=1, out=product[:, :, :pairs])
        return product
    least = first[:, 0, None] + second[None, 0]
    through = np.empty_like(least)
    for middle in range(1, states):
        np.add(first[:, middle, None], second[None, middle], out=through)
        np.minimum(least, through, out=least)
    product[:, :, :pairs] = least
    return product


def fill_in(path: States, level: Costs) -> States:
    """Insert into a path the states in the middle of each pair of steps."""
    count = level.shape[2]
    pairs = count // 2
    at = np.arange(0, 2 * pairs, 2)
    through = level[path[:pairs], :, at] + level[:, path[1 : pairs + 1], at + 1].T
    filled = np.empty(count + 1, np.intp)
    filled[0 : 2 * pairs : 2] = path[:pairs]
    filled[1 : 2 * pairs : 2] = through.argmin(axis=1)
    filled[2 * pairs :] = path[pairs:]
    return filled


# The weights of the path, in units of correlation, chosen by measurements on speech of known f0:
# clean, in noise, over a telephone and in a room.
_JUMP_COST = 0.5
_HIGHEST_JUMP_COST = 0.6
_VOICING_CHANGE_COST = 0.2
_VOICING_THRESHOLD = 0.21
_SILENCE = 0.008
_REGISTER_COST = 0.3
_REGISTER_OCTAVES = 0.4


@dataclass(frozen=True)
class F0Track:
    """The fundamental frequency every 10 ms, centred at sample 160 t; 0 Hz if unvoiced, [T]."""

    hertz: Array
    voicing: Array


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

    Takes mono audio at 16 kHz without offset, at any level, float32 [N]; returns ceil(N / 160)
    frames.
    """
    frames = -(-len(wave) // HOP)
    if frames == 0:
        nothing = np.zeros(0, np.float32)
        return F0Track(nothing, nothing)
    magnitudes = magnitude_spectra(wave, frames)
    candidates = find_candidates(magnitudes, steady_hum(magnitudes))
    return follow(candidates, *describe_speaker(candidates))


def describe_speaker(candidates: Candidates) -> tuple[float, float | None]:
    """Return the magnitude of speech, and log2 of the usual frequency, None without a voice."""
    power = candidates.levels**2
    magnitude = float(np.sqrt((power**2).sum() / max(float(power.sum()), 1e-20)))
    is_voiced = candidates.strengths[:, 0] > voicing_threshold(candidates, magnitude)
    register = ranked(candidates.octaves[is_voiced, 0], 0.5) if is_voiced.any() else None
    return magnitude, register


def follow(candidates: Candidates, magnitude: float, register: float | None) -> F0Track:
    """Choose the best path through the candidates of one or more frames; see track."""
    strengths = candidates.strengths
    if register is not None:
        beyond = np.abs(candidates.octaves - np.float32(register))
        excess = np.maximum(beyond - np.float32(_REGISTER_OCTAVES), 0.0)
        strengths = strengths - _REGISTER_COST * excess
    # The state after the last candidate means unvoiced.
    local = -np.concatenate([strengths.T, voicing_threshold(candidates, magnitude)[None]])
    # The cost of going from each state to each other at every step, [K+1, K+1, T-1].
    steps = np.full((len(local), *local[:, 1:].shape), _VOICING_CHANGE_COST, np.float32)
    jumps, octaves = steps[:-1, :-1], np.ascontiguousarray(candidates.octaves.T)
    np.subtract(octaves[:, None, :-1], octaves[None, :, 1:], out=jumps)
    np.abs(jumps, out=jumps)
    jumps *= np.float32(_JUMP_COST)
    np.minimum(jumps, np.float32(_HIGHEST_JUMP_COST), out=jumps)
    steps[-1, -1] = 0.0
    path = cheapest_path(local[:, 0], steps + local[None, :, 1:])
    frames, voiced = np.arange(len(path)), path < CANDIDATES
    chosen = candidates.octaves[frames, np.minimum(path, CANDIDATES - 1)]
    hertz = np.where(voiced, np.exp2(chosen), 0.0)
    return F0Track(hertz.astype(np.float32), voiced.astype(np.float32))


def voicing_threshold(candidates: Candidates, speech: float) -> Array:
    """Compute how strong a candidate must be for the frame to be voiced: [T]."""
    # Frames are quiet from 0 (speech) to 2 (silence).
    quietness = np.maximum(0.0, 2.0 - candidates.levels / max(speech, 1e-9) / _SILENCE)
    threshold: Array = np.float32(_VOICING_THRESHOLD) + quietness.astype(np.float32)
    return threshold
