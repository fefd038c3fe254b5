"""The likeliest periods of each frame of speech: what the pitch tracker chooses from."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from speech.signal.samples import resample

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

STEADY_BINS = 48
"""How many bins of the spectrum, up to 750 Hz, may hold a hum."""
_STEADY_SHARE = 0.06
_STEADY_REMOVED = 2.0
_LOUDEST_STEADY = 0.4
_FEWEST_FRAMES = 12


@dataclass(frozen=True)
class Candidates:
    """The likeliest periods of each frame.

    Attributes:
        octaves: log2 of the frequency in hertz, float32 [T, K].
        strengths: correlation at that period, about 0..1, float32 [T, K].
        levels: magnitude of the frame, float32 [T].
    """

    octaves: Array
    strengths: Array
    levels: Array


def find_candidates(magnitudes: Array, hum: Array) -> Candidates:
    """Find the peaks of each frame's autocorrelation, divided by that of the window.

    Args:
        magnitudes: of the frames' spectra; see magnitude_spectra.
        hum: what of them is not speech; see steady_hum.
    """
    frames = len(magnitudes)
    correlations, totals, levels = _correlate(magnitudes, hum)
    rows, octaves, heights = _peaks(correlations, totals)
    strengths = heights + _OCTAVE_COST * (octaves - np.log2(LOWEST_HZ))
    return Candidates(*_strongest(rows, octaves, strengths, frames), levels)


def magnitude_spectra(wave: Array, frames: int) -> Array:
    """Return the magnitude of each frame's spectrum, [T, bins] of 15.625 Hz.

    Args:
        wave: at 16 kHz; frame t is centred at sample 160 t and 20 ms long on either side.
        frames: how many.
    """
    hop = HOP * _HEARD_RATE // SAMPLE_RATE
    heard = resample(wave, SAMPLE_RATE, _HEARD_RATE)
    padded = np.zeros(len(heard) + 2 * _WINDOW + hop, np.float32)
    padded[_WINDOW // 2 : _WINDOW // 2 + len(heard)] = heard
    every = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::hop][:frames]
    window = _analysis_window()
    block = np.zeros((_BLOCK, _FFT), np.float32)
    magnitudes = np.empty((frames, _BINS), np.float32)
    for first in range(0, frames, _BLOCK):
        some = slice(first, first + _BLOCK)
        count = len(every[some])
        np.multiply(every[some], window, out=block[:count, :_WINDOW])
        np.abs(np.fft.rfft(block[:count])[:, :_BINS], out=magnitudes[some])
    return magnitudes


def steady_hum(magnitudes: Array, share: float = _STEADY_SHARE) -> Array:
    """Estimate what hums all the time, as mains and fans do: its magnitudes [STEADY_BINS].

    It is what a bin has even in its quietest moments (the minimum statistics of R. Martin, "Noise
    power spectral density estimation based on optimal smoothing and minimum statistics", 2001, with
    a low rank instead of the minimum). What is nearly as loud as the speech is no hum but a steady
    voice, and stays.

    Args:
        magnitudes: of frames far enough apart to tell, some of which are pauses; only their first
            STEADY_BINS bins are needed, float32 [T, bins].
        share: of the frames count as quietest moments.
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


def _correlate(magnitudes: Array, hum: Array) -> tuple[Array, Array, Array]:
    """Correlate each frame with itself.

    Returns:
        Correlations at the lags of _LAGS [T, lags], correlations at lag 0 [T], and magnitudes of
        the frames [T].
    """
    speech = magnitudes.copy()
    low = speech[:, :STEADY_BINS]
    np.maximum(low - hum, 0.0, out=low)
    # With few bins and few lags, a matrix product is faster than a transform.
    correlations = speech @ _inverse_transform()
    speech[:, 0] /= 2
    totals = speech.sum(axis=1)
    return correlations, totals, np.sqrt(np.einsum("tb,tb->t", speech, speech))


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
    kept = place < CANDIDATES
    order, cells = order[kept], rows[kept] * CANDIDATES + place[kept]
    octave_table = np.full((count, CANDIDATES), np.log2(LOWEST_HZ), np.float32)
    strength_table = np.full((count, CANDIDATES), _ABSENT, np.float32)
    octave_table.ravel()[cells] = octaves[order]
    strength_table.ravel()[cells] = strengths[order]
    return octave_table, strength_table
