"""Where in time and frequency the watermark makes the sound louder or softer."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from speech.results.watermark.code import LENGTH, PAYLOAD_BITS, code_words

CHIP_SECONDS: Final = 0.04
PERIOD: Final = 64
"""After how many chips the pattern begins again."""

LOWEST_HERTZ: Final = 300.0
BAND_HERTZ: Final = 300.0
BANDS: Final = 19
"""Bands of one width, up to 6 kHz: what Opus at 24 kbit/s and telephones in HD keep."""

SHORTEST_KEY: Final = 16
"""Bytes of a key, at least."""

_ADDRESS: Final = b"voice-avatar watermark 1: "


@dataclass(frozen=True)
class WatermarkKey:
    """What marks and finds a watermark; only the deployment may know it.

    Attributes:
        secret: at least 16 random bytes.
    """

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_KEY:
            raise ValueError(f"a watermark key has at least {SHORTEST_KEY} bytes")

    def __repr__(self) -> str:
        return "WatermarkKey(...)"

    @cached_property
    def signs(self) -> npt.NDArray[np.float32]:
        """Return -1 or 1 for each chip and band: float32 [PERIOD, BANDS]."""
        drawn = np.frombuffer(self._draw(b"signs", PERIOD * BANDS), np.uint8)
        return np.where(drawn & 1, np.float32(1), np.float32(-1)).reshape(PERIOD, BANDS)

    @cached_property
    def places(self) -> npt.NDArray[np.intp]:
        """Lay out the bits of the code word over chips and bands: [PERIOD, BANDS].

        Every 64 cells in a row carry each bit once, so a short piece has all of them.
        """
        count = -(-PERIOD * BANDS // LENGTH)
        drawn = np.frombuffer(self._draw(b"places", 4 * count * LENGTH), "<u4")
        orders = np.argsort(drawn.reshape(count, LENGTH), axis=1, kind="stable")
        return orders.ravel()[: PERIOD * BANDS].reshape(PERIOD, BANDS)

    def pattern(self, payload: int) -> npt.NDArray[np.float32]:
        """Return -1 (softer) or 1 (louder) for each chip and band: float32 [PERIOD, BANDS].

        Raises:
            ValueError: the payload does not have 16 bits.
        """
        if not 0 <= payload < 1 << PAYLOAD_BITS:
            raise ValueError(f"a payload is a number from 0 to {(1 << PAYLOAD_BITS) - 1}")
        return np.asarray(self.signs * code_words()[payload][self.places], np.float32)

    def first_chip(self, seed: int) -> int:
        """Return with which chip of the pattern the sound with a seed begins.

        It differs from voice to voice, so that an average of many results does not show the
        pattern, and is the same for every attempt at one voice.
        """
        digest = hmac.digest(self.secret, _ADDRESS + b"seed %d" % seed, "sha256")
        return int.from_bytes(digest[:4], "little") % PERIOD

    def _draw(self, what: bytes, count: int) -> bytes:
        """Draw bytes: SHAKE256 keyed by a prefix, which is a pseudorandom function."""
        return hashlib.shake_256(_ADDRESS + what + b"\0" + self.secret).digest(count)


def band_edges(scale: float = 1.0) -> npt.NDArray[np.float64]:
    """Return the edges of the bands in Hz, [BANDS + 1], times a scale."""
    return np.asarray(scale * (LOWEST_HERTZ + BAND_HERTZ * np.arange(BANDS + 1)), np.float64)


def band_shapes(size: int, sample_rate: float, scale: float = 1.0) -> npt.NDArray[np.float32]:
    """Compute each band's weights of the frequencies of a Fourier transform.

    Args:
        size: samples of the transform.
        sample_rate: in Hz.
        scale: of the bands' edges, for sound that is played faster or slower.

    Returns:
        float32 [BANDS, size // 2 + 1], 0 to 1; neighbours cross over 30 % of a band.
    """
    frequencies = np.arange(size // 2 + 1) * (sample_rate / size)
    edges = band_edges(scale)
    rise = 0.3 * BAND_HERTZ * scale
    steps = np.clip((frequencies - edges[:, None]) / rise + 0.5, 0.0, 1.0)
    above = np.sin(np.pi / 2 * steps) ** 2
    return np.asarray(above[:-1] - above[1:], np.float32)
