"""An inaudible watermark of 16 bits in speech, spread over time and frequency by a secret key.

The payload is coded by the extended BCH code (64, 16) with distance 24.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from shared.speech.signal.sound import Samples


PAYLOAD_BITS: Final = 16
LENGTH: Final = 64  # bits of a code word

# Of the BCH code (63, 16), which corrects 11 errors; see S. Lin and D. J. Costello, "Error Control
# Coding", table of generator polynomials.
_GENERATOR: Final = 0o6331141367235453

# Payloads that differ by these bits have words that differ in every place.
NEGATIVE: Final = 0o120755


@cache
def code_words() -> npt.NDArray[np.int8]:
    """Return the code word of every payload: int8 [65536, 64], each -1 or 1.

    A word is the product of the payload's and the generator's polynomials, and a parity bit.
    """
    payloads = np.arange(1 << PAYLOAD_BITS, dtype=np.uint64)
    products = np.zeros_like(payloads)
    for place in range(PAYLOAD_BITS):
        is_set = payloads >> np.uint64(place) & np.uint64(1)
        products ^= is_set * np.uint64(_GENERATOR << place)
    places = np.arange(LENGTH - 1, dtype=np.uint64)
    bits = (products[:, None] >> places & np.uint64(1)).astype(np.int8)
    parity = bits.sum(axis=1, keepdims=True, dtype=np.int8) & 1
    return np.concatenate([bits, parity], axis=1) * np.int8(2) - np.int8(1)


CHIP_SECONDS: Final = 0.04
PERIOD: Final = 64  # the chips after which the pattern begins again

LOWEST_HERTZ: Final = 300.0
BAND_HERTZ: Final = 300.0
# Bands of one width, up to 6 kHz: what Opus at 24 kbit/s and telephones in HD keep.
BANDS: Final = 19
SHORTEST_KEY: Final = 16  # bytes

_ADDRESS: Final = b"voice-avatar watermark 1: "


@dataclass(frozen=True)
class WatermarkKey:
    """The key that marks and finds a watermark: at least 16 random bytes, a secret."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_KEY:
            raise ValueError(f"a watermark key has at least {SHORTEST_KEY} bytes")

    def __repr__(self) -> str:
        return "WatermarkKey(...)"

    @cached_property
    def signs(self) -> npt.NDArray[np.float32]:
        """Return -1 or 1 for each chip and band: float32 [PERIOD, BANDS]."""
        drawn = np.frombuffer(self.draw(b"signs", PERIOD * BANDS), np.uint8)
        return np.where(drawn & 1, np.float32(1), np.float32(-1)).reshape(PERIOD, BANDS)

    @cached_property
    def places(self) -> npt.NDArray[np.intp]:
        """Lay out the bits of the code word: [PERIOD, BANDS]; 64 cells in a row have each once."""
        count = -(-PERIOD * BANDS // LENGTH)
        drawn = np.frombuffer(self.draw(b"places", 4 * count * LENGTH), "<u4")
        orders = np.argsort(drawn.reshape(count, LENGTH), axis=1, kind="stable")
        return orders.ravel()[: PERIOD * BANDS].reshape(PERIOD, BANDS)

    def pattern(self, payload: int) -> npt.NDArray[np.float32]:
        """Return -1 (softer) or 1 (louder) for each chip and band: float32 [PERIOD, BANDS]."""
        if not 0 <= payload < 1 << PAYLOAD_BITS:
            raise ValueError(f"a payload is a number from 0 to {(1 << PAYLOAD_BITS) - 1}")
        return np.asarray(self.signs * code_words()[payload][self.places], np.float32)

    def first_chip(self, seed: int) -> int:
        """Return the chip with which the sound of a seed begins: an average shows no pattern."""
        digest = hmac.digest(self.secret, _ADDRESS + b"seed %d" % seed, "sha256")
        return int.from_bytes(digest[:4], "little") % PERIOD

    def draw(self, what: bytes, count: int) -> bytes:
        """Draw bytes: SHAKE256 keyed by a prefix, which is a pseudorandom function."""
        return hashlib.shake_256(_ADDRESS + what + b"\0" + self.secret).digest(count)


def band_edges(scale: float = 1.0) -> npt.NDArray[np.float64]:
    """Return the edges of the bands in Hz, [BANDS + 1], times a scale."""
    return np.asarray(scale * (LOWEST_HERTZ + BAND_HERTZ * np.arange(BANDS + 1)), np.float64)


def band_shapes(size: int, sample_rate: float, scale: float = 1.0) -> npt.NDArray[np.float32]:
    """Return each band's weights of the frequencies: float32 [BANDS, size // 2 + 1], 0 to 1."""
    frequencies = np.arange(size // 2 + 1) * (sample_rate / size)
    edges = band_edges(scale)
    rise = 0.3 * BAND_HERTZ * scale
    steps = np.clip((frequencies - edges[:, None]) / rise + 0.5, 0.0, 1.0)
    above = np.sin(np.pi / 2 * steps) ** 2
    return np.asarray(above[:-1] - above[1:], np.float32)


# The change of a chip in dB at these frequencies. Where the pitch and the formants are, the ear,
# and networks that judge speech, notice more.
_DEPTH_HERTZ: Final = (1200.0, 2400.0, 3300.0, 4500.0)
_DEPTHS: Final = (0.55, 1.2, 2.7, 4.0)
# A band of a chip that is so far below the loudest moment has this part of the depth; from the
# second level on it has all of it.
_SOFT_DB: Final = (-54.0, -42.0)
_SOFT_PART: Final = 0.4
_FORGOTTEN: Final = 10 ** (-6.0 / 10 * CHIP_SECONDS)  # of the loudest moment: 6 dB each second
_LEAST: Final = 1e-20  # a power of nothing that is not zero
_FADED: Final = 0.5  # the part of a chip that its beginning and end take together


@dataclass(frozen=True)
class Watermark:
    """A payload of 16 bits for sound of one sample rate; several threads may use it at once."""

    key: WatermarkKey
    payload: int
    sample_rate: int

    def mark(self, samples: Samples, seed: int) -> Samples:
        """Mark samples, float32 [N], full scale 1.0; the same samples and seed give the same."""
        return self.open(seed).end_with(samples)

    def open(self, seed: int) -> WatermarkStream:
        return WatermarkStream(*self._shape, self.key.first_chip(seed))

    @cached_property
    def _shape(self) -> tuple[Samples, _Bands, Samples]:
        size = round(CHIP_SECONDS * self.sample_rate)
        return self.key.pattern(self.payload), _Bands(size, self.sample_rate), fade(size)


class _Bands:
    """The bands of a chip's spectrum, summed row by row: a chip is marked alike in any company."""

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
    """Marks one sound piece by piece, in one thread; up to a chip of 40 ms waits for its rest."""

    def __init__(self, pattern: Samples, bands: _Bands, fade: Samples, first_chip: int) -> None:
        self._pattern = pattern
        self._bands = bands
        self._fade = fade
        self._next = first_chip
        self._loudest = _LEAST
        self._waiting = np.zeros(0, np.float32)

    @property
    def waiting(self) -> int:
        """The number of samples that wait for the rest of their chip."""
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

    def _gains(
        self, spectra: npt.NDArray[np.complexfloating], numbers: npt.NDArray[np.intp]
    ) -> Samples:
        """Return the factor of what is added at each frequency: [C, F] to float32 [C, F]."""
        powers = self._bands.powers(spectra)
        loudest = list(
            accumulate(
                powers.max(axis=1).tolist(),
                lambda before, power: max(before * _FORGOTTEN, power, _LEAST),
                initial=self._loudest,
            )
        )
        self._loudest = loudest[-1]
        references = np.array(loudest[1:], np.float32)[:, None]
        levels = 10 * np.log10((powers + _LEAST) / references)
        parts = np.interp(levels, _SOFT_DB, (_SOFT_PART, 1.0))
        # By how many dB a loud chip changes in each band.
        depths = np.interp(band_edges()[:-1] + BAND_HERTZ / 2, _DEPTH_HERTZ, _DEPTHS)
        decibels = self._pattern[numbers] * depths * parts
        return self._bands.spread(np.asarray(10 ** (decibels / 20) - 1, np.float32))


def fade(count: int) -> Samples:
    """Return a raised-cosine rise, a plateau and a fall: float32 [count]."""
    length = round(count * _FADED / 2)
    rise = np.sin(np.pi / 2 * (np.arange(length) + 0.5) / length) ** 2
    shape = np.concatenate([rise, np.ones(count - 2 * length), rise[::-1]])
    return np.asarray(shape, np.float32)
