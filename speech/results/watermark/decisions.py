"""Soft decisions: how likely each cell of the pattern became louder, rather than softer.

A small network looks at a chip's band and what surrounds it. It learned from marked and damaged
speech what speech itself does, and what noise leaves of a mark (`python -m training.watermark`).
It knows no key: whatever it answers, chance agrees with a key's signs as the detector computes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from speech.results.watermark.pattern import BANDS, band_shapes

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

WEIGHTS: Final = Path(__file__).with_name("decisions.npz")

RATE: Final = 16_000
"""What is searched has this sample rate, in Hz."""

CHIP_FRAMES: Final = 4
"""Frames of 10 ms in a chip."""

_WINDOW: Final = 512
_HOP: Final = 160
_TRANSFORM: Final = 1024

_FLOOR: Final = 0.1
_LOUDNESS: Final = (-7.0, 5.0, 2.0)
_ABOVE_FLOOR: Final = (-2.0, 9.0, 3.0)
"""From which level on, up to which one, and in which unit (nepers of power) the network hears."""


class Weights(NamedTuple):
    """What the network learned; float32. The last dimension is the channels that come out.

    Attributes:
        chips: [3 CHIP_FRAMES, 5, 2, H]: a chip and its neighbours, in five bands.
        bands: [BANDS, H]: added in each band.
        around: [3, 3, H, H]: of the chips and bands around.
        around_bias: [H].
        decision: [H].
        decision_bias: [].
    """

    chips: Floats
    bands: Floats
    around: Floats
    around_bias: Floats
    decision: Floats
    decision_bias: Floats


@cache
def weights() -> Weights:
    """Read what the network learned."""
    with np.load(WEIGHTS) as kept:
        return Weights(**{name: kept[name].astype(np.float32) for name in Weights._fields})


def powers(wave: Floats) -> Floats:
    """Return the power of each frame of 10 ms of a sound at RATE at each frequency: [T, F]."""
    padded = np.pad(wave, _WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    spectra = np.fft.rfft(frames * np.hanning(_WINDOW).astype(np.float32), _TRANSFORM)
    return np.asarray(np.square(np.abs(spectra)), np.float32)


def features(spectrum: Floats, pitch: float = 1.0) -> Floats:
    """Return what the network hears of a sound's frames.

    Args:
        spectrum: see powers.
        pitch: by which factor the bands lie higher.

    Returns:
        float32 [T, BANDS, 2]: the level beside the band's mean, and above the band's noise.
    """
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
    """Decide for each cell.

    Args:
        heard: features of a sound's frames, float32 [T, BANDS, 2].
        chips: which frames make up each chip, [C, CHIP_FRAMES].

    Returns:
        float32 [C, BANDS]: the logarithm of how much likelier louder is than softer.
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
