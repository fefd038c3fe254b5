"""Mel spectrograms as the pitch models RMVPE and FCPE hear speech at 16 kHz."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Array64 = NDArray[np.float64]
Scale = Literal["htk", "slaney"]

BANDS = 128
_SAMPLE_RATE = 16_000
_WINDOW = 1_024
_HOP = 160
_QUIETEST = 1e-5
_BLOCK = 256

# Slaney's scale is linear up to 1 kHz and logarithmic above ("Auditory toolbox", 1998).
_LINEAR_HZ = 200 / 3
_KNEE_HZ = 1_000.0
_KNEE = _KNEE_HZ / _LINEAR_HZ
_LOG_STEP = float(np.log(6.4)) / 27


@dataclass(frozen=True)
class MelKind:
    """One kind of mel spectrogram.

    Attributes:
        scale: on which the bands are spaced evenly: the one of HTK or of Slaney.
        low_hz: where the lowest band begins.
        high_hz: where the highest band ends.
        padding: samples reflected at either end.
        floor: added to every power.
    """

    scale: Scale
    low_hz: float
    high_hz: float
    padding: int
    floor: float


RMVPE_MEL = MelKind("htk", 30.0, 8_000.0, padding=_WINDOW // 2, floor=0.0)
FCPE_MEL = MelKind("slaney", 0.0, 8_000.0, padding=(_WINDOW - _HOP) // 2, floor=1e-9)


def log_mel(wave: Array, kind: MelKind) -> Array:
    """Compute the natural logarithm of the magnitudes in 128 bands, every 10 ms.

    Args:
        wave: mono audio at 16 kHz, float32 [N], at least two samples.
        kind: of the spectrogram.

    Returns:
        float32 [N // 160 + 1, 128]; a frame that would end after the padding repeats the last.
    """
    frames = len(wave) // _HOP + 1
    padded = np.pad(wave, kind.padding, mode="reflect")
    short = max(_WINDOW - len(padded), 0)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(padded, (0, short)), _WINDOW)
    every = windows[::_HOP][:frames]
    mel = np.concatenate([_bands(every[at : at + _BLOCK], kind) for at in range(0, frames, _BLOCK)])
    logs: Array = np.log(np.maximum(mel, np.float32(_QUIETEST)))
    return np.pad(logs, ((0, frames - len(logs)), (0, 0)), mode="edge")


def _bands(windows: Array, kind: MelKind) -> Array:
    spectra = np.fft.rfft(windows * _hann())
    magnitudes = np.sqrt(spectra.real**2 + spectra.imag**2 + kind.floor)
    bands: Array = magnitudes.astype(np.float32) @ _filters(kind)
    return bands


@lru_cache(maxsize=1)
def _hann() -> Array:
    window: Array = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)).astype(
        np.float32
    )
    return window


@lru_cache(maxsize=2)
def _filters(kind: MelKind) -> Array:
    """Triangles over the spectrum, each with the area 1 (Slaney's normalisation): [513, 128]."""
    ends = _to_mel(np.array([kind.low_hz, kind.high_hz]), kind.scale)
    corners = _to_hertz(np.linspace(ends[0], ends[1], BANDS + 2), kind.scale)
    hertz = np.arange(_WINDOW // 2 + 1)[:, None] * _SAMPLE_RATE / _WINDOW
    rising = (hertz - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - hertz) / (corners[2:] - corners[1:-1])
    triangles = np.maximum(np.minimum(rising, falling), 0)
    filters: Array = (triangles * 2 / (corners[2:] - corners[:-2])).astype(np.float32)
    return filters


def _to_mel(hertz: Array64, scale: Scale) -> Array64:
    if scale == "htk":
        mel: Array64 = 2595 * np.log10(1 + hertz / 700)
        return mel
    above = _KNEE + np.log(np.maximum(hertz, _KNEE_HZ) / _KNEE_HZ) / _LOG_STEP
    return np.where(hertz < _KNEE_HZ, hertz / _LINEAR_HZ, above)


def _to_hertz(mel: Array64, scale: Scale) -> Array64:
    if scale == "htk":
        hertz: Array64 = 700 * (10 ** (mel / 2595) - 1)
        return hertz
    above = _KNEE_HZ * np.exp(_LOG_STEP * (np.maximum(mel, _KNEE) - _KNEE))
    return np.where(mel < _KNEE, mel * _LINEAR_HZ, above)
