"""Marks speech: chip by chip, each band a little louder or softer.

A quantity that follows the sound itself stays below what masks it: nothing is added to silence. The
way is that of spread-spectrum watermarks in the logarithm of the spectrum (D. Kirovski and
H. S. Malvar, "Spread-spectrum watermarking of audio signals", IEEE Trans. Signal Processing 51(4),
2003). Chips touch each other and do not overlap, so each sample is transformed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from speech.results.watermark.pattern import (
    BAND_HERTZ,
    CHIP_SECONDS,
    PERIOD,
    band_edges,
    band_shapes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from speech.results.watermark.pattern import WatermarkKey
    from speech.signal.arrays import Samples

_DEPTH_HERTZ: Final = (1200.0, 1800.0, 2400.0)
_DEPTHS: Final = (1.0, 3.0, 4.5)
"""By how many dB a chip is louder or softer at these frequencies. Where the pitch and the first
formant are, the ear, and networks that judge speech, notice more."""

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
        return WatermarkStream(self.gains, self.fade, self.key.first_chip(seed))

    @cached_property
    def gains(self) -> Samples:
        """The factor for each frequency of each chip: float32 [PERIOD, F]."""
        middles = band_edges()[:-1] + BAND_HERTZ / 2
        depths = np.interp(middles, _DEPTH_HERTZ, _DEPTHS)
        added = 10 ** (self.key.pattern(self.payload) * depths / 20) - 1
        return np.asarray(added @ band_shapes(len(self.fade), self.sample_rate), np.float32)

    @cached_property
    def fade(self) -> Samples:
        """How a chip comes and goes: float32 [samples of a chip], 0 to 1."""
        return fade(round(CHIP_SECONDS * self.sample_rate))


class WatermarkStream:
    """Marks one sound piece by piece; used by one thread at a time.

    Up to a chip of 40 ms waits for the rest of it.

    Args:
        gains: see Watermark.
        fade: see Watermark.
        first_chip: with which chip of the pattern the sound begins.
    """

    def __init__(self, gains: Samples, fade: Samples, first_chip: int) -> None:
        self._gains = gains
        self._fade = fade
        self._next = first_chip
        self._waiting = np.zeros(0, np.float32)

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
        spectra *= self._gains[numbers]
        marked = np.fft.irfft(spectra, size, axis=1)
        marked *= self._fade
        marked += chips
        # A loud sample may have become louder than full scale, which is seldom.
        return np.asarray(np.clip(marked, -1.0, 1.0, out=marked).ravel(), np.float32)


def fade(count: int) -> Samples:
    """Return a raised-cosine rise, a plateau and a fall: float32 [count]."""
    length = round(count * _FADED / 2)
    rise = np.sin(np.pi / 2 * (np.arange(length) + 0.5) / length) ** 2
    shape = np.concatenate([rise, np.ones(count - 2 * length), rise[::-1]])
    return np.asarray(shape, np.float32)
