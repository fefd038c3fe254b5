"""Finds the watermark: which payload, and how unlikely it is that chance made it.

Nothing is known about the sound but the key. So the detector tries where the pattern begins and
how much faster or slower the sound became, and takes what agrees best with a code word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import soxr

from speech.results.watermark.code import LENGTH, PAYLOAD_BITS, code_words
from speech.results.watermark.embedding import fade
from speech.results.watermark.pattern import BANDS, CHIP_SECONDS, PERIOD, band_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from speech.results.watermark.pattern import WatermarkKey

    Floats = npt.NDArray[np.float32]

FOUND_FROM: Final = 7.4
"""Agreement from which a watermark counts as found; see Finding."""

SHORTEST_SECONDS: Final = 1.0
"""Shorter sounds are not searched."""

LONGEST_SECONDS: Final = 12.0
"""Of longer sounds, parts of this length are searched: beyond it, a small error in the tempo makes
the pattern slip."""

_RATE: Final = 16_000
_WINDOW: Final = 512
_HOP: Final = 160
_TRANSFORM: Final = 1024
_FRAMES: Final = round(CHIP_SECONDS * _RATE / _HOP)

_SPEEDS: Final = tuple(1 + step / 200 for step in range(-5, 6))
"""By which factor the sound became faster: 2.5 % either way, in steps of half of one."""

_KEPT: Final = 256
"""How many of the tried beginnings and speeds are compared with all code words."""

_TRIES: Final = (2 * len(_SPEEDS) - 1) * _FRAMES * PERIOD << PAYLOAD_BITS

_NOISE_FLOORS: Final = 4.0
_LARGEST: Final = 3.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found in a sound.

    Attributes:
        payload: the 16 bits that agree best, as a number.
        agreement: how well they agree, in standard deviations of what chance gives one try.
        speed: by which factor the sound plays faster than it was made.
    """

    payload: int
    agreement: float
    speed: float

    @property
    def is_found(self) -> bool:
        """Whether there is a watermark; on sound without one, once in more than 10 000 times."""
        return self.agreement >= FOUND_FROM

    @property
    def chance(self) -> float:
        """How often chance agrees as well as this with one of all the tries, at most.

        The sum of a sign drawn for each cell is nearly normal, whatever the sound is.
        """
        return min(1.0, _TRIES * math.erfc(self.agreement / math.sqrt(2)) / 2)


def find_watermark(
    samples: npt.NDArray[np.float32], sample_rate: int, keys: Sequence[WatermarkKey]
) -> Finding | None:
    """Search a sound for the watermark of a key.

    Args:
        samples: float32 [N], full scale 1.0.
        sample_rate: in Hz.
        keys: the deployment's: the present one and earlier ones.

    Returns:
        What agrees best, whether it counts as found or not; None for a sound that is silent, or
        shorter than a second, and without keys.
    """
    wave = soxr.resample(samples, sample_rate, _RATE) if sample_rate != _RATE else samples
    if len(wave) < SHORTEST_SECONDS * _RATE or not wave.any():
        return None
    parts = max(1, math.ceil(len(wave) / (LONGEST_SECONDS * _RATE)))
    heard = [_Heard(part) for part in np.array_split(wave, parts) if part.any()]
    findings = [part.search(key) for part in heard for key in keys]
    return max(findings, key=lambda found: found.agreement, default=None)


class _Heard:
    """A part of a sound, as it would be marked for each beginning and speed that is tried.

    Args:
        wave: at 16 kHz.
    """

    def __init__(self, wave: Floats) -> None:
        powers = _powers(wave)
        self._speeds: list[float] = []
        tried: list[Floats] = []
        for pitch, tempo in _changes():
            levels = _levels(powers, pitch)
            for begin in range(_FRAMES):
                cells = _cells(levels, begin, tempo).ravel()
                tried.append(cells / max(float(np.linalg.norm(cells)), 1e-9))
                self._speeds.append(tempo)
        self._tried = np.stack(tried, axis=1)

    def search(self, key: WatermarkKey) -> Finding:
        """Find the payload of a key that agrees best, with its beginning and speed."""
        sums = (_correlator(key) @ self._tried).reshape(PERIOD, LENGTH, -1)
        bits = sums.transpose(0, 2, 1).reshape(-1, LENGTH)
        best = np.argsort(np.square(bits).sum(axis=1))[-_KEPT:]
        agreements = bits[best] @ code_words().astype(np.float32).T
        row, payload = np.unravel_index(int(np.argmax(agreements)), agreements.shape)
        speed = self._speeds[int(best[row]) % len(self._speeds)]
        return Finding(int(payload), float(agreements[row, payload]), speed)


def _changes() -> Iterator[tuple[float, float]]:
    """The changes that are looked for: of pitch and tempo alike, or of the tempo alone."""
    yield from ((speed, speed) for speed in _SPEEDS)
    yield from product((1.0,), (speed for speed in _SPEEDS if speed != 1.0))


def _correlator(key: WatermarkKey) -> Floats:
    """Build the matrices that sum the cells of each bit, for each chip that a sound may begin with.

    Returns:
        float32 [PERIOD LENGTH, PERIOD BANDS]: times the cells, in order of time, these are the
        bits, first those for the pattern's first chip.
    """
    begins, chips, bands = np.ogrid[:PERIOD, :PERIOD, :BANDS]
    turned = (begins + chips) % PERIOD
    correlator = np.zeros((PERIOD, LENGTH, PERIOD, BANDS), np.float32)
    correlator[begins, key.places[turned, bands], chips, bands] = key.signs[turned, bands]
    return correlator.reshape(PERIOD * LENGTH, PERIOD * BANDS)


def _powers(wave: Floats) -> Floats:
    """Return the power of each frame of 10 ms at each frequency."""
    padded = np.pad(wave, _WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    spectra = np.fft.rfft(frames * np.hanning(_WINDOW).astype(np.float32), _TRANSFORM)
    return np.asarray(np.square(np.abs(spectra)), np.float32)


def _levels(powers: Floats, pitch: float) -> Floats:
    """Return the level of each frame and band, [T, BANDS], without what does not change.

    What lies near a band's noise floor says little, so it is flattened.
    """
    energies = powers @ band_shapes(_TRANSFORM, _RATE, pitch).T
    floors = _NOISE_FLOORS * np.quantile(energies, 0.1, axis=0) + 1e-4 * energies.mean(axis=0)
    levels = np.log(energies + floors + 1e-20)
    return np.asarray(levels - levels.mean(axis=0), np.float32)


def _cells(levels: Floats, begin: int, tempo: float) -> Floats:
    """Return each chip's level in each band beyond what its neighbours let expect.

    Args:
        levels: of frames of 10 ms.
        begin: which frame a chip begins with.
        tempo: by which factor chips are shorter.

    Returns:
        float32 [PERIOD, BANDS]: all periods of the pattern added, the first chip first.
    """
    length = _FRAMES / tempo
    count = int((len(levels) - begin) / length)
    places = begin + (np.arange(count)[:, None] + (np.arange(_FRAMES) + 0.5) / _FRAMES) * length
    frames = np.minimum(places.astype(np.intp), len(levels) - 1)
    chips = np.einsum("cfb,f->cb", levels[frames], fade(_FRAMES) / _FRAMES)
    unexpected = _unexpected(chips)
    folded = np.zeros((-(-count // PERIOD) * PERIOD, BANDS), np.float32)
    folded[:count] = unexpected
    return np.asarray(folded.reshape(-1, PERIOD, BANDS).sum(axis=0), np.float32)


def _unexpected(chips: Floats) -> Floats:
    """Subtract what the neighbours in time and frequency predict, fitted to this sound."""
    padded = np.pad(chips, ((2, 2), (2, 2)), mode="edge")

    def around(time: int, band: int) -> Floats:
        rows = slice(2 + time, 2 + time + chips.shape[0])
        return padded[rows, 2 + band : 2 + band + chips.shape[1]]

    neighbours = np.stack(
        [
            around(-1, 0) + around(1, 0),
            around(-2, 0) + around(2, 0),
            around(0, -1) + around(0, 1),
            around(0, -2) + around(0, 2),
            around(-1, -1) + around(1, 1) + around(-1, 1) + around(1, -1),
        ],
        axis=-1,
    ).reshape(-1, 5)
    products = neighbours.T @ neighbours
    products += 1e-3 * np.trace(products) / 5 * np.eye(5, dtype=np.float32)
    weights = np.linalg.solve(products, neighbours.T @ chips.ravel())
    rest = chips - (neighbours @ weights).reshape(chips.shape)
    # A band of a noisy sound, and a moment between words, count as much as they say.
    rest /= np.sqrt(np.square(rest).mean(axis=0)) + 1e-6
    return np.asarray(np.clip(rest, -_LARGEST, _LARGEST), np.float32)
