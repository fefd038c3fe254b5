"""Mel spectra of 16 kHz speech: what the network hears."""

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from shared.speech.signal.samples import resample

Floats = NDArray[np.float32]

RATE = 16_000
HOP = 160
WINDOW = 400
FFT_SIZE = 512
BANDS = 80
LOWEST_HZ, HIGHEST_HZ = 60.0, 7800.0
POWER_FLOOR = 1e-9


def mel_filters() -> Floats:
    """Triangular mel filters of unit sum, float32 [bands, fft_size // 2 + 1]."""

    def to_mel(hz: float) -> float:
        return float(2595 * np.log10(1 + hz / 700))

    corners_mel = np.linspace(to_mel(LOWEST_HZ), to_mel(HIGHEST_HZ), BANDS + 2)
    corners = 700 * (10 ** (corners_mel / 2595) - 1)
    bins = np.arange(FFT_SIZE // 2 + 1) * RATE / FFT_SIZE
    filters = np.zeros((BANDS, len(bins)))
    for band in range(BANDS):
        low, centre, high = corners[band : band + 3]
        rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
        filters[band] = np.maximum(0, np.minimum(rising, falling))
        if filters[band].sum() < 1e-3:
            filters[band, round(centre / RATE * FFT_SIZE)] = 1
    return (filters / filters.sum(1, keepdims=True)).astype(np.float32)


def window() -> Floats:
    return np.hanning(WINDOW + 1)[:-1].astype(np.float32)


class MelSpectrum:
    def __init__(self) -> None:
        self._filters = mel_filters().T
        self._window = window()

    def log_power(self, wave: Floats, frames: int, speed: float = 1.0) -> Floats:
        """Logarithm of mel power [frames, bands]; frame n is centred at n * HOP / speed."""
        centres = np.round(np.arange(frames) * HOP / speed).astype(int)
        padded = np.pad(wave, (WINDOW // 2, WINDOW + max(0, int(centres[-1]) - len(wave))))
        pieces = padded[centres[:, None] + np.arange(WINDOW)] * self._window
        spectra = np.abs(np.fft.rfft(pieces, FFT_SIZE, axis=1)) ** 2
        result: Floats = np.log(spectra @ self._filters + POWER_FLOOR).astype(np.float32)
        return result


def read_mono(file: Path) -> tuple[Floats, int]:
    wave, rate = soundfile.read(file, dtype="float32", always_2d=True)
    return np.asarray(wave.mean(1), np.float32), rate


def read_speech(file: Path) -> Floats:
    wave, rate = read_mono(file)
    return np.asarray(resample(wave, rate, RATE), np.float32)
