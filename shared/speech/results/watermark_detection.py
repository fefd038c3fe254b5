"""Finds watermarks, by soft decisions: how likely each cell of the pattern became louder.

A small network looks at a chip's band and what surrounds it. It learned from marked and damaged
speech what speech itself does, and what noise leaves of a mark (`python -m
tools.training.watermark_detector`). It knows no key: whatever it answers, chance agrees with a
key's signs as the detector computes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import soxr

from shared.speech.results.watermark import (
    BANDS,
    LENGTH,
    NEGATIVE,
    PAYLOAD_BITS,
    PERIOD,
    band_shapes,
    code_words,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.speech.results.watermark import WatermarkKey

    Floats = npt.NDArray[np.float32]


WEIGHTS: Final = Path(__file__).with_name("decisions.npz")

RATE: Final = 16_000  # Hz, at which sounds are searched
CHIP_FRAMES: Final = 4  # of 10 ms in a chip

_WINDOW: Final = 512
_HOP: Final = 160
_TRANSFORM: Final = 1024

_FLOOR: Final = 0.1
# Lowest level, highest level and unit of the network's input, in nepers of power.
_LOUDNESS: Final = (-7.0, 5.0, 2.0)
_ABOVE_FLOOR: Final = (-2.0, 9.0, 3.0)


class DecisionWeights(NamedTuple):
    """The weights of the network; float32. The last dimension is the channels that come out."""

    chips: Floats  # [3 CHIP_FRAMES, 5, 2, H]: a chip and its neighbours, in five bands
    bands: Floats  # [BANDS, H]: added in each band
    around: Floats  # [3, 3, H, H]: of the chips and bands around
    around_bias: Floats  # [H]
    decision: Floats  # [H]
    decision_bias: Floats  # []


@cache
def weights() -> DecisionWeights:
    with np.load(WEIGHTS) as kept:
        return DecisionWeights(
            **{name: kept[name].astype(np.float32) for name in DecisionWeights._fields}
        )


def powers(wave: Floats) -> Floats:
    """Return the power of each frame of 10 ms of a sound at RATE at each frequency: [T, F]."""
    padded = np.pad(wave, _WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    spectra = np.fft.rfft(frames * np.hanning(_WINDOW).astype(np.float32), _TRANSFORM)
    return np.asarray(np.square(np.abs(spectra)), np.float32)


def features(spectrum: Floats, pitch: float = 1.0) -> Floats:
    """Return the network's input: float32 [T, BANDS, 2], levels beside mean and above noise."""
    energies = spectrum @ band_shapes(_TRANSFORM, RATE, pitch).T
    levels = np.log(energies + 1e-12)
    loudness = np.log(energies.mean(axis=0) + 1e-12)
    floors = np.quantile(levels, _FLOOR, axis=0)
    heard = [
        np.clip(levels - reference, low, high) / unit
        for reference, (low, high, unit) in ((loudness, _LOUDNESS), (floors, _ABOVE_FLOOR))
    ]
    return np.stack(heard, axis=-1).astype(np.float32)


def decide(heard: Floats, chips: npt.NDArray[np.intp]) -> Floats:
    """Return the logarithm of how much likelier louder is than softer: float32 [C, BANDS].

    `heard` are features, float32 [T, BANDS, 2], and `chips` each chip's frames, [C, CHIP_FRAMES].
    """
    net = weights()
    count = len(chips)
    frames = np.zeros(((count + 2) * CHIP_FRAMES, BANDS + 4, 2), np.float32)
    frames[CHIP_FRAMES:-CHIP_FRAMES, 2:-2] = heard[chips.ravel()]
    windows = np.lib.stride_tricks.sliding_window_view(frames, net.chips.shape[:2], axis=(0, 1))
    near = windows[::CHIP_FRAMES].transpose(0, 1, 3, 4, 2).reshape(count * BANDS, -1)
    hidden = (near @ net.chips.reshape(near.shape[1], -1)).reshape(count, BANDS, -1)
    hidden = np.maximum(hidden + net.bands, 0)
    padded = np.pad(hidden, ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    around = windows.transpose(0, 1, 3, 4, 2).reshape(count * BANDS, -1)
    judged = np.maximum(around @ net.around.reshape(around.shape[1], -1) + net.around_bias, 0)
    return np.asarray((judged @ net.decision + net.decision_bias).reshape(count, BANDS), np.float32)


# A watermark counts as found if chance would agree as well less often than this.
MOST_CHANCE: Final = 1 / 20_000
SHORTEST_SECONDS: Final = 1.0  # shorter sounds are not searched
# Of longer sounds, parts of this length are searched: beyond it, a small error in the tempo makes
# the pattern slip.
LONGEST_SECONDS: Final = 12.0

# Factors by which the sound became faster: 2.5 % either way, in steps of half of one.
_SPEEDS: Final = tuple(1 + step / 200 for step in range(-5, 6))
# Beginnings and payloads that are tried at the speed at which the sound was made.
_TRIES: Final = CHIP_FRAMES * PERIOD << PAYLOAD_BITS
# The same at all other speeds, where the pitch changed with the tempo or did not.
_OTHER_TRIES: Final = _TRIES * 2 * (len(_SPEEDS) - 1)
# The agreements from which on a watermark counts as found after so many tries.
_LEAST: Final = -NormalDist().inv_cdf(MOST_CHANCE / (2 * _TRIES))
_OTHER_LEAST: Final = -NormalDist().inv_cdf(MOST_CHANCE / (2 * _OTHER_TRIES))

_ROWS: Final = 32


@dataclass(frozen=True, slots=True)
class WatermarkFinding:
    """The payload that agrees best with a sound, which plays `speed` times as fast as made."""

    payload: int
    agreement: float
    speed: float

    @property
    def is_found(self) -> bool:
        """There is a watermark; wrong on sound without one less than once in 10 000 times."""
        return self.chance <= MOST_CHANCE

    @property
    def chance(self) -> float:
        """An upper bound for the chance that one of all tries agrees as well.

        A sum of drawn signs is nearly normal. Half is left to the unchanged speed, the likeliest.
        """
        tries = _TRIES if self.speed == 1.0 else _OTHER_TRIES
        return min(1.0, tries * math.erfc(self.agreement / math.sqrt(2)))


def find_watermark(
    samples: npt.NDArray[np.float32], sample_rate: int, keys: Sequence[WatermarkKey]
) -> WatermarkFinding | None:
    """Return the best agreement of a sound, float32 [N], with a key, found or not.

    None for a sound that is silent, or shorter than a second, and without keys.
    """
    wave = soxr.resample(samples, sample_rate, RATE) if sample_rate != RATE else samples
    if len(wave) < SHORTEST_SECONDS * RATE or not wave.any():
        return None
    parts = max(1, math.ceil(len(wave) / (LONGEST_SECONDS * RATE)))
    pieces = [_SoundPart(part) for part in np.array_split(wave, parts) if part.any()]
    findings = [piece.search(key) for piece in pieces for key in keys]
    return min(findings, key=lambda found: found.chance, default=None)


class _SoundPart:
    """A part of a sound at 16 kHz, read as marked with each beginning and speed that is tried."""

    def __init__(self, wave: Floats) -> None:
        spectrum = powers(wave)
        self._speeds: list[float] = []
        tried: list[Floats] = []
        others = [speed for speed in _SPEEDS if speed != 1.0]
        # No change first, then of pitch and tempo alike, then of tempo alone.
        changes = [(1.0, 1.0), *zip(others, others, strict=True), *((1.0, each) for each in others)]
        for pitch, tempo in changes:
            heard = features(spectrum, pitch)
            for begin in range(CHIP_FRAMES):
                cells = _cells(heard, begin, tempo).ravel()
                tried.append(cells / max(float(np.linalg.norm(cells)), 1e-9))
                self._speeds.append(tempo)
        self._tried = np.stack(tried, axis=1)

    def search(self, key: WatermarkKey) -> WatermarkFinding:
        sums = (_correlator(key) @ self._tried).reshape(PERIOD, LENGTH, -1)
        bits = sums.transpose(2, 0, 1)
        unchanged = _closest(bits[:CHIP_FRAMES].reshape(-1, LENGTH), _LEAST)
        changed = _closest(bits[CHIP_FRAMES:].reshape(-1, LENGTH), _OTHER_LEAST)
        speed = self._speeds[CHIP_FRAMES + changed.row // PERIOD]
        findings = (
            WatermarkFinding(unchanged.payload, unchanged.agreement, 1.0),
            WatermarkFinding(changed.payload, changed.agreement, speed),
        )
        return min(findings, key=lambda finding: (finding.chance, -finding.agreement))


class _BestRow(NamedTuple):
    row: int
    payload: int
    agreement: float


def _closest(bits: Floats, least: float) -> _BestRow:
    """Find the row of bits, float32 [N, LENGTH], that agrees best with a code word.

    No word agrees better with a row than the row's own signs do. So rows are left out whose signs
    agree worse than a word that was found already, or than is of interest.
    """
    bounds = np.abs(bits).sum(axis=1)
    order = np.argsort(-bounds)
    best = _BestRow(0, 0, -math.inf)
    for begin in range(0, len(order), _ROWS):
        rows = order[begin : begin + _ROWS]
        if begin and bounds[rows[0]] <= max(best.agreement, least):
            break
        agreements = bits[rows] @ _words()
        for extreme, is_negative in ((agreements.argmax(), False), (agreements.argmin(), True)):
            place, payload = np.unravel_index(int(extreme), agreements.shape)
            agreement = abs(float(agreements[place, payload]))
            if agreement > best.agreement:
                word = int(payload) ^ NEGATIVE * is_negative
                best = _BestRow(int(rows[place]), word, agreement)
    return best


@cache
def _words() -> Floats:
    """Return half of the code words, float32 [LENGTH, 32768]; the others are their negatives."""
    return np.ascontiguousarray(code_words()[: 1 << PAYLOAD_BITS - 1].T, np.float32)


def _correlator(key: WatermarkKey) -> Floats:
    """Build the matrix that sums the cells, in order of time, of each bit for each first chip."""
    begins, chips, bands = np.ogrid[:PERIOD, :PERIOD, :BANDS]
    turned = (begins + chips) % PERIOD
    correlator = np.zeros((PERIOD, LENGTH, PERIOD, BANDS), np.float32)
    correlator[begins, key.places[turned, bands], chips, bands] = key.signs[turned, bands]
    return correlator.reshape(PERIOD * LENGTH, PERIOD * BANDS)


def _cells(heard: Floats, begin: int, tempo: float) -> Floats:
    """Return how likely each cell became louder: float32 [PERIOD, BANDS], all periods added."""
    length = CHIP_FRAMES / tempo
    count = int((len(heard) - begin) / length)
    steps = np.arange(count)[:, None] + (np.arange(CHIP_FRAMES) + 0.5) / CHIP_FRAMES
    frames = np.minimum((begin + steps * length).astype(np.intp), len(heard) - 1)
    folded = np.zeros((-(-count // PERIOD) * PERIOD, BANDS), np.float32)
    folded[:count] = decide(heard, frames)
    return np.asarray(folded.reshape(-1, PERIOD, BANDS).sum(axis=0), np.float32)
