"""Marks speech: chip by chip, each band a little louder or softer.

A quantity that follows the sound itself stays below what masks it: nothing is added to silence. The
way is that of spread-spectrum watermarks in the logarithm of the spectrum (D. Kirovski and
H. S. Malvar, "Spread-spectrum watermarking of audio signals", IEEE Trans. Signal Processing 51(4),
2003). Chips touch each other and do not overlap, so each sample is transformed once.

How much each band changes was chosen by what it costs and what it brings: how far it moves what a
recogniser of speech hears, and how much of it is found in noise. Sounds far below the loudest
moment drown in any noise, so little is done to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from speech.results.watermark.pattern import (
    BAND_HERTZ,
    BANDS,
    CHIP_SECONDS,
    PERIOD,
    band_edges,
    band_shapes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from speech.results.watermark.pattern import WatermarkKey
    from speech.signal.arrays import Samples

    Indices = npt.NDArray[np.intp]

_DEPTH_HERTZ: Final = (1200.0, 2400.0, 3300.0, 4500.0)
_DEPTHS: Final = (0.55, 1.2, 2.7, 4.0)
"""By how many dB a chip is louder or softer at these frequencies. Where the pitch and the formants
are, the ear, and networks that judge speech, notice more."""

_SOFT_DB: Final = (-54.0, -42.0)
_SOFT_PART: Final = 0.4
"""A band of a chip that is so far below the loudest moment has this part of the depth; from the
second level on it has all of it."""

_FORGOTTEN: Final = 10 ** (-6.0 / 10 * CHIP_SECONDS)
"""The loudest moment is forgotten by 6 dB each second."""

_LEAST: Final = 1e-20
"""A power that is nothing, and no zero."""

_FADED: Final = 0.5
"""Which part of a chip its beginning and end take, together."""


@dataclass(frozen=True)
class Watermark:
    """Marks sound of one sample rate with one payload; several threads may use it at once.

    Attributes:
        key: the deployment's.
        payload: 16 bits that the operator chose, as a number.
        sample_rate: in Hz.
    """

    key: WatermarkKey
    payload: int
    sample_rate: int

    def mark(self, samples: Samples, seed: int) -> Samples:
        """Return marked samples, float32 [N]; the same samples and seed give the same.

        Args:
            samples: float32 [N], full scale 1.0.
            seed: of the voice.
        """
        return self.open(seed).end_with(samples)

    def mark_pieces(self, pieces: Iterable[Samples], seed: int) -> Iterator[Samples]:
        """Mark pieces that are played one after the other; together they are as `mark` says."""
        stream = self.open(seed)
        for piece in pieces:
            marked = stream.push(piece)
            if len(marked):
                yield marked
        yield stream.end_with(np.zeros(0, np.float32))

    def open(self, seed: int) -> WatermarkStream:
        """Begin to mark a sound that comes piece by piece."""
        first = self.key.first_chip(seed)
        return WatermarkStream(self.pattern, self._bands, self._fade, first)

    @cached_property
    def pattern(self) -> Samples:
        """What becomes louder and softer: float32 [PERIOD, BANDS], -1 or 1."""
        return self.key.pattern(self.payload)

    @cached_property
    def _bands(self) -> _Bands:
        return _Bands(len(self._fade), self.sample_rate)

    @cached_property
    def _fade(self) -> Samples:
        return fade(round(CHIP_SECONDS * self.sample_rate))


class _Bands:
    """The bands in the spectrum of a chip: each frequency lies in one of them or between two.

    Everything is summed row by row, so that a chip is marked alike whatever comes with it.

    Args:
        size: samples of a chip.
        sample_rate: in Hz.
    """

    def __init__(self, size: int, sample_rate: float) -> None:
        shapes = band_shapes(size, sample_rate)
        bins = band_edges() * size / sample_rate
        self._edges = np.minimum(np.round(bins).astype(np.intp), shapes.shape[1] - 1)
        frequencies = np.arange(shapes.shape[1])
        self._most = shapes.argmax(axis=0)
        self._of_most = shapes[self._most, frequencies]
        shapes[self._most, frequencies] = 0
        self._other = shapes.argmax(axis=0)
        self._of_other = shapes[self._other, frequencies]

    def powers(self, spectra: npt.NDArray[np.complexfloating]) -> Samples:
        """Add up the power in each band of each chip: [C, F] to float32 [C, BANDS]."""
        powers = np.square(spectra.real) + np.square(spectra.imag)
        return np.asarray(np.add.reduceat(powers, self._edges, axis=1)[:, :BANDS], np.float32)

    def spread(self, values: Samples) -> Samples:
        """Give each frequency its bands' value: float32 [C, BANDS] to [C, F]."""
        spread = values[:, self._most] * self._of_most + values[:, self._other] * self._of_other
        return np.asarray(spread, np.float32)


class WatermarkStream:
    """Marks one sound piece by piece; used by one thread at a time.

    Up to a chip of 40 ms waits for the rest of it.

    Args:
        pattern: see Watermark.
        bands: of a chip's spectrum.
        fade: how a chip comes and goes: float32 [samples of a chip], 0 to 1.
        first_chip: with which chip of the pattern the sound begins.
    """

    def __init__(self, pattern: Samples, bands: _Bands, fade: Samples, first_chip: int) -> None:
        self._pattern = pattern
        self._bands = bands
        self._fade = fade
        self._next = first_chip
        self._loudest = _LEAST
        self._waiting = np.zeros(0, np.float32)

    @property
    def waiting(self) -> int:
        """How many samples wait for the rest of their chip."""
        return len(self._waiting)

    def push(self, samples: Samples) -> Samples:
        """Take the next samples, float32 [N]; return all chips that are complete."""
        held = np.concatenate([self._waiting, samples]) if len(self._waiting) else samples
        complete = len(held) - len(held) % len(self._fade)
        self._waiting = held[complete:]
        return self._mark(held[:complete])

    def end_with(self, samples: Samples) -> Samples:
        """Take the last samples, float32 [N]; return all that is left."""
        whole = self.push(samples)
        rest, self._waiting = self._waiting, self._waiting[:0]
        padded = np.zeros(len(self._fade) if len(rest) else 0, np.float32)
        padded[: len(rest)] = rest
        return np.concatenate([whole, self._mark(padded)[: len(rest)]])

    def _mark(self, samples: Samples) -> Samples:
        size = len(self._fade)
        chips = samples.reshape(-1, size)
        numbers = (self._next + np.arange(len(chips))) % PERIOD
        self._next = (self._next + len(chips)) % PERIOD
        spectra = np.fft.rfft(chips, axis=1)
        spectra *= self._gains(spectra, numbers)
        marked = np.fft.irfft(spectra, size, axis=1)
        marked *= self._fade
        marked += chips
        # A loud sample may have become louder than full scale, which is seldom.
        return np.asarray(np.clip(marked, -1.0, 1.0, out=marked).ravel(), np.float32)

    def _gains(self, spectra: npt.NDArray[np.complexfloating], numbers: Indices) -> Samples:
        """Return the factor of what is added at each frequency: [C, F] to float32 [C, F]."""
        powers = self._bands.powers(spectra)
        loudest = list(accumulate(powers.max(axis=1).tolist(), _loudest, initial=self._loudest))
        self._loudest = loudest[-1]
        references = np.array(loudest[1:], np.float32)[:, None]
        levels = 10 * np.log10((powers + _LEAST) / references)
        parts = np.interp(levels, _SOFT_DB, (_SOFT_PART, 1.0))
        decibels = self._pattern[numbers] * _depths() * parts
        return self._bands.spread(np.asarray(10 ** (decibels / 20) - 1, np.float32))


def _loudest(before: float, power: float) -> float:
    return max(before * _FORGOTTEN, power, _LEAST)


def _depths() -> npt.NDArray[np.float64]:
    """Return by how many dB a loud chip changes in each band."""
    return np.interp(band_edges()[:-1] + BAND_HERTZ / 2, _DEPTH_HERTZ, _DEPTHS)


def fade(count: int) -> Samples:
    """Return a raised-cosine rise, a plateau and a fall: float32 [count]."""
    length = round(count * _FADED / 2)
    rise = np.sin(np.pi / 2 * (np.arange(length) + 0.5) / length) ** 2
    shape = np.concatenate([rise, np.ones(count - 2 * length), rise[::-1]])
    return np.asarray(shape, np.float32)
