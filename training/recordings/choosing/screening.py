"""Finds usable speech in a recording, and says what is not used and why.

Each test looks at one stretch of sound between pauses. Its limit lies between what hundreds of
recordings of people gave and what the bad kind gave.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.ndimage
from numpy.typing import NDArray

from speech.signal.chunks import cut_at_pauses
from speech.signal.clock import NoClock
from speech.signal.levels import FRAMES_PER_SECOND, decibels, ranked
from speech.signal.whole.analysis import Analysis, analyse
from training.recordings.choosing.echo import resounds
from training.recordings.choosing.reading import Piece
from training.sound.features import RATE, Floats

SILENCE = "silence"
CLIPPED = "clipped"
NOISE = "noise"
ECHO = "echo"
MUSIC = "music"
TELEPHONE = "telephone quality"
SHORT = "too short"

LONGEST_FRAMES = 1_200
SHORTEST_FRAMES = 35
_REPORTED_SILENCE = 100
_AROUND = 60
_QUIET_SHARE = 0.05

_LEAST_ABOVE_NOISE_DB = 18.0
_FLAT = 3
_FLAT_STEP = 1e-4
_NEAR_PEAK = 0.9
_MOST_CLIPPED = 5e-4
_MOST_PERSISTENT = 0.3
_LEAST_FOR_MUSIC = 2  # seconds; a short word may be one sound
_LEAST_HIGH_DB = -25.0
_FFT = 1_024
_LAG = 8
_STEP = RATE // 50


@dataclass(frozen=True)
class Utterance:
    """Usable speech without long pauses.

    Attributes:
        file: in which it was.
        start: seconds in the file.
        samples: float32 [N].
        rate: in Hz.
    """

    file: str
    start: float
    samples: Floats
    rate: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class Dropped:
    """A part of a recording that is not used, in seconds of the file, and why."""

    file: str
    start: float
    end: float
    reason: str

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.start


def screen(piece: Piece) -> tuple[list[Utterance], list[Dropped]]:
    """Part a piece of a recording into usable speech and the rest, both in order of time."""
    analysis = analyse(piece.samples, piece.rate, NoClock())
    kept: list[Utterance] = []
    dropped: list[Dropped] = []
    stretches = list(_stretches(analysis))
    echo = ECHO if resounds(analysis.wave) else None
    for begin, end in stretches:
        reason = _fault(piece, analysis, begin, end)
        if reason in (None, MUSIC):
            # Partials that go on sounding in a room seem to be an instrument's.
            reason = echo or reason
        if reason is None:
            kept.append(_cut(piece, begin, end))
        else:
            dropped.append(_dropped(piece, begin, end, reason))
    edges = [0, *(edge for stretch in stretches for edge in stretch), len(analysis.speech)]
    gaps = list(pairwise(edges))[::2]
    silent = [gap for gap in gaps if gap[1] - gap[0] >= _REPORTED_SILENCE]
    dropped += [_dropped(piece, begin, end, SILENCE) for begin, end in silent]
    return kept, sorted(dropped, key=lambda part: part.start)


def _stretches(analysis: Analysis) -> Iterator[tuple[int, int]]:
    """First frame and frame after the last of every stretch of sound, at most 12 s long."""
    edges = np.flatnonzero(np.diff(np.pad(analysis.speech.astype(np.int8), 1)))
    for first, last in edges.reshape(-1, 2).tolist():
        levels = analysis.levels.frames[first:last]
        for chunk in cut_at_pauses(levels, LONGEST_FRAMES):
            yield first + chunk.begin, first + chunk.end


def _cut(piece: Piece, begin: int, end: int) -> Utterance:
    hop = piece.rate / FRAMES_PER_SECOND
    samples = piece.samples[round(begin * hop) : round(end * hop)].copy()
    return Utterance(piece.file, piece.start + begin / FRAMES_PER_SECOND, samples, piece.rate)


def _dropped(piece: Piece, begin: int, end: int, reason: str) -> Dropped:
    start = piece.start + begin / FRAMES_PER_SECOND
    stop = min(piece.start + end / FRAMES_PER_SECOND, piece.start + len(piece.samples) / piece.rate)
    return Dropped(piece.file, start, stop, reason)


def _fault(piece: Piece, analysis: Analysis, begin: int, end: int) -> str | None:
    """Why a stretch is not used, or None."""
    heard = analysis.wave[begin * RATE // FRAMES_PER_SECOND : end * RATE // FRAMES_PER_SECOND]
    if end - begin < SHORTEST_FRAMES:
        return SHORT
    if persistence(heard) > _MOST_PERSISTENT:
        return MUSIC
    if _clipped_share(_cut(piece, begin, end).samples, piece.samples) > _MOST_CLIPPED:
        return CLIPPED
    if _above_noise(analysis, begin, end) < _LEAST_ABOVE_NOISE_DB:
        return NOISE
    return None


def persistence(wave: Floats) -> float:
    """How far the partials stay where they are for 160 ms: speech up to 0.2, music above 0.3.

    The correlation of the spectra's fine structure with that of 160 ms later, where it is loud. The
    partials of a voice glide; those of instruments last as long as a note.

    Args:
        wave: float32 [N] at 16 kHz.
    """
    if len(wave) < _LEAST_FOR_MUSIC * RATE:
        return 0.0
    frames = np.lib.stride_tricks.sliding_window_view(wave, _FFT)[::_STEP]
    power = np.abs(np.fft.rfft(frames * np.hanning(_FFT).astype(np.float32)))[:, 6:256] ** 2
    level = decibels(power.sum(1))
    fine = np.log(power + 1e-10 * max(float(power.max()), 1e-20))
    fine -= scipy.ndimage.uniform_filter1d(fine, 21, axis=1)
    fine /= np.linalg.norm(fine, axis=1, keepdims=True) + 1e-9
    likeness = np.einsum("tb,tb->t", fine[:-_LAG], fine[_LAG:])
    is_loud = level > level.max() - 30
    both = is_loud[:-_LAG] & is_loud[_LAG:]
    return float(likeness[both].mean()) if both.any() else 0.0


def _clipped_share(samples: Floats, whole: Floats) -> float:
    """Share of samples in flat tops near the recording's peak; of unclipped speech none."""
    peak = float(np.abs(whole).max(initial=0.0))
    is_high = np.abs(samples) > _NEAR_PEAK * peak
    is_flat = is_high[1:] & (np.abs(np.diff(samples)) < _FLAT_STEP * peak)
    runs = np.convolve(is_flat, np.ones(_FLAT - 1), "valid") >= _FLAT - 1
    return float(runs.mean()) if len(runs) else 0.0


def _above_noise(analysis: Analysis, begin: int, end: int) -> float:
    """By how many dB the loud part of a stretch is above the quietest moments in and around it."""
    levels = analysis.levels.frames
    around = levels[max(begin - _AROUND, 0) : end + _AROUND]
    return ranked(levels[begin:end], 0.9) - ranked(around, _QUIET_SHARE)


def height_db(utterances: list[Utterance]) -> float:
    """How strong the highest sounds are, 4.3 to 5.5 kHz against 2.3 to 3.3 kHz, in dB.

    20 s of anybody gave -20 or more; telephones and their codecs give -30 or less.
    """
    power = np.concatenate([_spectra(utterance) for utterance in utterances])
    hertz = np.arange(power.shape[1]) * RATE / _FFT
    low = power[:, (hertz > 2_300) & (hertz < 3_300)].mean(1)
    high = power[:, (hertz > 4_300) & (hertz < 5_500)].mean(1)
    return float(10 * np.log10((ranked(high, 0.97) + 1e-20) / (ranked(low, 0.97) + 1e-20)))


def _spectra(utterance: Utterance) -> NDArray[np.float32]:
    wave = analyse(utterance.samples, utterance.rate, NoClock()).wave
    padded = np.pad(wave, (0, max(0, _FFT - len(wave))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[:: _FFT // 2]
    spectra: NDArray[np.float32] = np.abs(np.fft.rfft(frames * np.hanning(_FFT))) ** 2
    return spectra


def is_telephone(utterances: list[Utterance]) -> bool:
    """Whether nothing of the speech lies above 4 kHz."""
    return height_db(utterances) < _LEAST_HIGH_DB
