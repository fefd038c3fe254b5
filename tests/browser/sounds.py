"""Makes recordings for the browser's microphone, and measures results."""

from __future__ import annotations

import wave
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from tests.browser.endpoints import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Samples = npt.NDArray[np.float32]

SAMPLE = ROOT / "infra" / "local" / "samples" / "hello.webm"
"""The project's own recording; tests/samples/README.md describes how it was made."""

MICROPHONE_RATE = 48_000
_FRAME_SECONDS = 0.04
_LOWEST_HZ, _HIGHEST_HZ = 70.0, 600.0
_VOICED = 0.6


def decode(path: Path, rate: int = MICROPHONE_RATE) -> Samples:
    """Decode a file into float32 [n], mono, at `rate` Hz."""
    resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
    with av.open(str(path)) as container:
        frames = [*container.decode(audio=0), None]
    pieces = [piece.to_ndarray()[0] for frame in frames for piece in resampler.resample(frame)]
    return np.concatenate(pieces).astype(np.float32)


def write_wav(path: Path, samples: Samples, rate: int = MICROPHONE_RATE) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return path


def silence(seconds: float) -> Samples:
    return np.zeros(int(seconds * MICROPHONE_RATE), np.float32)


def loudness(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples))))


def median_pitch(samples: Samples, rate: int = MICROPHONE_RATE) -> float:
    """Return the median fundamental frequency in Hz of the voiced frames, by autocorrelation."""
    size = int(_FRAME_SECONDS * rate)
    frames = samples[: len(samples) // size * size].reshape(-1, size)
    loud = frames[np.square(frames).mean(axis=1) > np.square(loudness(samples)) / 4]
    pitches = [pitch for frame in loud if (pitch := _pitch(frame, rate)) is not None]
    return float(np.median(pitches))


def _pitch(frame: npt.NDArray[Any], rate: int) -> float | None:
    spectrum = np.fft.rfft(frame - frame.mean(), 2 * len(frame))
    correlation = np.fft.irfft(np.square(np.abs(spectrum)))[: len(frame)]
    # Fewer samples overlap at longer lags; without this the lags of low voices would lose.
    correlation = correlation / correlation[0] * len(frame) / np.arange(len(frame), 0, -1)
    shortest, longest = int(rate / _HIGHEST_HZ), int(rate / _LOWEST_HZ)
    lags = correlation[shortest:longest]
    best = float(lags.max())
    if best < _VOICED:
        return None
    # The first peak that is nearly as high as the highest: multiples of the period fit as well.
    first = shortest + int(np.argmax(lags > 0.9 * best))
    peak = first + int(np.argmax(correlation[first : first + shortest]))
    return rate / peak
