"""Fundamental frequency and voicing of speech, in numpy."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from functions.convert.engines.viterbi import cheapest_path

Array = NDArray[np.float32]
Path = NDArray[np.intp]

SAMPLE_RATE = 16_000
HOP = 160

LOWEST_HZ = 55.0
HIGHEST_HZ = 650.0

_WINDOW = 640
_FFT = 1024
_BINS = int(3_600 / SAMPLE_RATE * _FFT)  # above that, speech is more noise than harmonics
_FIRST_LAG = int(SAMPLE_RATE / HIGHEST_HZ)
_LAST_LAG = int(SAMPLE_RATE / LOWEST_HZ) + 2
_BLOCK = 32  # frames worked on at once, so that they stay in the processor's cache

_CANDIDATES = 7
_WEAKEST = 0.1  # a lower peak is no candidate
_ABSENT = -9.0  # the strength of a place in the table without a candidate

# The weights of the path, in units of correlation. Chosen by measuring on speech of known f0,
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
    power spectrum, so that a strong formant or a missing fundamental does not decide alone
    (Tolonen and Karjalainen, 2000). A second pass knows the speaker's register from the first (De
    Looze and Hirst, 2008), which removes what octave errors are left.

    Args:
        wave: mono audio at 16 kHz without offset, any level, float32 [N].

    Returns:
        One frame for every 160 samples begun: T = ceil(N / 160).
    """
    frames = -(-len(wave) // HOP)
    if frames == 0:
        nothing = np.zeros(0, np.float32)
        return F0Track(nothing, nothing)
    candidates = _find_candidates(wave, frames)
    first = _choose(candidates, candidates.strengths)
    chosen = _choose(candidates, _favour_register(candidates, first))
    octaves, voiced = _follow(candidates, chosen)
    hertz = np.where(voiced, np.exp2(octaves), 0.0)
    return F0Track(hertz.astype(np.float32), voiced.astype(np.float32))


def _find_candidates(wave: Array, frames: int) -> _Candidates:
    padded = np.pad(wave, (_WINDOW // 2, _WINDOW + HOP))
    every = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::HOP][:frames]
    blocks = (every[first : first + _BLOCK] for first in range(0, frames, _BLOCK))
    correlations, levels = zip(*(_correlate(block) for block in blocks), strict=True)
    rows, octaves, heights = _peaks(np.concatenate(correlations))
    octave_table = np.full((frames, _CANDIDATES), np.log2(LOWEST_HZ), np.float32)
    strength_table = np.full((frames, _CANDIDATES), _ABSENT, np.float32)
    strengths = heights + _OCTAVE_COST * (octaves - np.log2(LOWEST_HZ))
    kept, place = _strongest(rows, strengths, frames)
    octave_table[rows[kept], place] = octaves[kept]
    strength_table[rows[kept], place] = strengths[kept]
    return _Candidates(octave_table, strength_table, np.concatenate(levels))


def _correlate(frames: Array) -> tuple[Array, Array]:
    """Correlate each frame [T, W] with itself: [T, lags], 1 at lag 0; and its magnitude [T]."""
    window, correction = _analysis_window()
    spectrum = np.fft.rfft(frames * window, _FFT)[:, :_BINS]
    power = spectrum.real**2 + spectrum.imag**2
    # Few bins in and few lags out: a product with their cosines is quicker than a transform.
    correlation: Array = np.sqrt(power) @ _inverse_transform()
    correlation *= 1.0 / np.maximum(correlation[:, :1], np.float32(1e-12))
    correlation *= correction
    levels: Array = np.sqrt(power.sum(axis=1))
    return correlation, levels


@lru_cache(maxsize=1)
def _analysis_window() -> tuple[Array, Array]:
    """The analysis window [W] and the inverse of its own normalised correlation [lags]."""
    window = np.hanning(_WINDOW + 2)[1:-1]
    own = np.correlate(window, window, "full")[_WINDOW - 1 :][: _LAST_LAG + 1]
    return window.astype(np.float32), (own[0] / own).astype(np.float32)


@lru_cache(maxsize=1)
def _inverse_transform() -> Array:
    """The cosines [bins, lags] that turn a spectrum into its correlation, up to a factor."""
    angle = 2 * np.pi * np.outer(np.arange(_BINS), np.arange(_LAST_LAG + 1)) / _FFT
    cosines = np.cos(angle)
    cosines[0] /= 2  # every other bin stands for its mirror image, too
    return cosines.astype(np.float32)


def _peaks(correlation: Array) -> tuple[Path, Array, Array]:
    """Find the peaks of all rows, refined by a parabola: row, log2 Hz and height of each."""
    here = correlation[:, _FIRST_LAG:-1]
    above_left = here > correlation[:, _FIRST_LAG - 1 : -2]
    above_right = here >= correlation[:, _FIRST_LAG + 1 :]
    rows, columns = np.nonzero(above_left & above_right & (here > _WEAKEST))
    lags = columns + _FIRST_LAG
    left, middle, right = (correlation[rows, lags + side] for side in (-1, 0, 1))
    shift = 0.5 * (left - right) / (left - 2 * middle + right)
    octaves = np.log2(SAMPLE_RATE / (lags + shift)).astype(np.float32)
    return rows, octaves, np.minimum(middle - 0.25 * (left - right) * shift, 1.0)


def _strongest(rows: Path, strengths: Array, count: int) -> tuple[Path, Path]:
    """Choose each row's strongest peaks: their indices, and the place of each in its row."""
    order = np.lexsort((-strengths, rows))
    peaks_in_row = np.bincount(rows, minlength=count)
    first_of_row = np.cumsum(peaks_in_row) - peaks_in_row
    place = np.arange(len(rows)) - np.repeat(first_of_row, peaks_in_row)
    kept = place < _CANDIDATES
    return order[kept], place[kept]


def _favour_register(candidates: _Candidates, path: Path) -> Array:
    """Weaken the candidates that lie far from the median of a first path."""
    octaves, voiced = _follow(candidates, path)
    if not voiced.any():
        return candidates.strengths
    beyond = np.abs(candidates.octaves - np.median(octaves[voiced])) - _REGISTER_OCTAVES
    favoured: Array = candidates.strengths - _REGISTER_COST * np.maximum(beyond, 0.0)
    return favoured


def _choose(candidates: _Candidates, strengths: Array) -> Path:
    """Find the best path [T] through the candidates; the state after the last means unvoiced."""
    unvoiced = _VOICING_THRESHOLD + _quietness(candidates.levels)
    local = -np.concatenate([strengths, unvoiced[:, None]], axis=1)
    jumps = np.abs(candidates.octaves[:-1, :, None] - candidates.octaves[1:, None, :])
    shape = (len(local) - 1, _CANDIDATES + 1, _CANDIDATES + 1)
    steps = np.full(shape, _VOICING_CHANGE_COST, np.float32)
    steps[:, :-1, :-1] = np.minimum(_JUMP_COST * jumps, _HIGHEST_JUMP_COST)
    steps[:, -1, -1] = 0.0
    steps += local[1:, None, :]
    return cheapest_path(local[0], steps)


def _quietness(levels: Array) -> Array:
    """Tell how far a frame lies below the level of the speech: 0 well above silence, up to 2."""
    power = levels**2
    speech = np.sqrt((power**2).sum() / max(float(power.sum()), 1e-20))
    quietness: Array = np.maximum(0.0, 2.0 - levels / max(float(speech), 1e-9) / _SILENCE)
    return quietness.astype(np.float32)


def _follow(candidates: _Candidates, path: Path) -> tuple[Array, NDArray[np.bool_]]:
    """Read the log2 frequencies along a path [T], and where it is voiced [T]."""
    frames = np.arange(len(path))
    return candidates.octaves[frames, np.minimum(path, _CANDIDATES - 1)], path < _CANDIDATES
