"""Samples of a recording: checks, resampling, rumble, and the levels of speech and pauses."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import soxr
from numpy.typing import NDArray

from shared.characters.manifest import CharacterManifest
from shared.speech.signal.sound import Samples
from shared.voices.voice import ErrorCode, VoiceError

_Float = TypeVar("_Float", bound=np.floating[Any])

FRAMES_PER_SECOND = 100
_SILENT_POWER = 1e-12  # -120 dBFS
_FLOOR_SHARE = 0.1


def frame_power(samples: Samples, hop: int, frames: int) -> Samples:
    """Mean square of 20 ms around each frame: float32 [frames]; frame t is centred at hop * t."""
    whole = np.zeros((frames + 1) * hop, np.float32)
    used = samples[: frames * hop]
    whole[hop : hop + len(used)] = used
    blocks = whole.reshape(frames + 1, hop)
    energy = np.einsum("bs,bs->b", blocks, blocks)
    power: Samples = (energy[:-1] + energy[1:]) / np.float32(2 * hop)
    return power


def decibels(power: NDArray[np.floating]) -> Samples:
    """Convert power to dB; nothing is below -120 dB."""
    level: Samples = (10.0 * np.log10(np.maximum(power, _SILENT_POWER))).astype(np.float32)
    return level


def smooth(values: Samples, frames: int) -> Samples:
    """Average with a raised cosine over so many frames; the edge values are repeated: [T]."""
    frames = min(frames, len(values)) | 1
    window = np.hanning(frames + 2)[1:-1].astype(np.float32)
    padded = hold_edges(values, frames // 2, frames // 2)
    return np.convolve(padded, window / window.sum(), "valid").astype(np.float32)


def hold_edges(values: NDArray[_Float], before: int, after: int) -> NDArray[_Float]:
    """Repeat the first value before and the last one after; several times faster than np.pad."""
    held = np.empty(before + len(values) + after, values.dtype)
    held[:before] = values[0]
    held[before : before + len(values)] = values
    held[before + len(values) :] = values[-1]
    return held


def ranked(values: NDArray[np.floating], share: float) -> float:
    """Return the quantile of the given share, by nearest rank."""
    rank = round(share * (len(values) - 1))
    return float(np.partition(values, rank)[rank])


@dataclass(frozen=True)
class SpeechLevels:
    """Levels in dB (mean square): frames [T], power-weighted speech, quietest tenth."""

    frames: Samples
    speech: float
    floor: float

    @property
    def range(self) -> float:
        return self.speech - self.floor


def measure_levels(samples: Samples, hop: int, frames: int) -> SpeechLevels:
    return levels_of(frame_power(samples, hop, frames))


def levels_of(power: Samples) -> SpeechLevels:
    level = decibels(power)
    return SpeechLevels(level, speech_level(power), ranked(level, _FLOOR_SHARE))


def speech_level(power: Samples) -> float:
    """Level in dB of the speech in frames of that power: the mean weighted by the power itself."""
    total = float(power.sum())
    weighted = float(np.dot(power, power)) / total if total > _SILENT_POWER else 0.0
    return float(decibels(np.array([weighted]))[0])


LOWEST_RATE = 4_000
HIGHEST_RATE = 384_000
_LOUDEST = 64.0  # decoders exceed 1 a little; samples beyond this are not audio
RESAMPLING_QUALITY = "HQ"
_RUMBLE_SECONDS = 0.02
_RUMBLE_STEP = 8


def check_samples(samples: Samples, sample_rate: int, manifest: CharacterManifest) -> None:
    """Refuse samples that cannot be converted.

    Raises VoiceError if samples are not finite (`corrupt`), or the length is outside of the
    character's limits (`too_short`, `too_long`); ValueError, the caller's mistake, if they are not
    mono float32.
    """
    check_rate(sample_rate)
    check_audio(samples)
    seconds, limits = len(samples) / sample_rate, manifest.limits
    if seconds < limits.min_seconds:
        raise VoiceError(
            ErrorCode.TOO_SHORT,
            f"The recording lasts {seconds:.2f} s; {manifest.name.en} needs at least"
            f" {limits.min_seconds:g} s.",
        )
    if seconds > limits.max_seconds:
        raise VoiceError(
            ErrorCode.TOO_LONG,
            f"The recording lasts {seconds:.2f} s; {manifest.name.en} converts at most"
            f" {limits.max_seconds:g} s.",
        )


def check_audio(samples: Samples) -> None:
    if samples.ndim != 1 or samples.dtype != np.float32:
        raise ValueError(f"expected float32 [N], found {samples.dtype} {list(samples.shape)}")
    loudest = float(np.maximum(samples.max(initial=0.0), -samples.min(initial=0.0)))
    if not loudest <= _LOUDEST:  # also false if it is not a number
        raise VoiceError(
            ErrorCode.CORRUPT,
            f"The recording holds samples that are not audio (up to {loudest}, expected about 1).",
        )


def check_rate(sample_rate: int) -> None:
    """Refuse a sample rate that no recording has, with ValueError: the caller's mistake."""
    if not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
        raise ValueError(f"expected {LOWEST_RATE} to {HIGHEST_RATE} Hz, found {sample_rate} Hz")


def converted_length(length: int, rate: int, new_rate: int) -> int:
    """Convert a number of samples to another rate, rounded half up."""
    return (2 * length * new_rate + rate) // (2 * rate)


def resample(samples: Samples, rate: int, new_rate: int) -> Samples:
    if rate == new_rate:
        return samples
    resampled = soxr.resample(samples, rate, new_rate, quality=RESAMPLING_QUALITY)
    return fit_length(resampled, converted_length(len(samples), rate, new_rate))


def fit_length(samples: Samples, length: int) -> Samples:
    """Cut samples, or append silence, to exactly `length`."""
    if len(samples) >= length:
        return samples[:length]
    longer = np.zeros(length, samples.dtype)
    longer[: len(samples)] = samples
    return longer


def remove_rumble(samples: Samples, sample_rate: int) -> Samples:
    """Subtract a moving average of a moving average: no offset, and little below 40 Hz.

    The response is 1 - sinc(0.02 s * f)^2, with linear phase: 0 at 0 Hz, 0.95 at 75 Hz. The edge
    values are repeated. An average over 20 ms changes so slowly that it is computed for every
    eighth sample only and interpolated linearly between them.
    """
    if len(samples) == 0:
        return samples
    step = _RUMBLE_STEP
    steps = -(-len(samples) // step)
    width = round(_RUMBLE_SECONDS * sample_rate / step)
    # With half a step less than both averages need, corners lie half a sample before each step.
    around = width * step - step // 2
    padded = hold_edges(samples, around, steps * step - len(samples) + around)
    # A matrix product would round in another way for another length.
    means = np.add.reduce(padded.reshape(-1, step), axis=1) / np.float32(step)
    corners = _moving_average(_moving_average(means, width), width)[:, None]
    ramp = (np.arange(step, dtype=np.float32) + np.float32(0.5)) / np.float32(step)
    average = corners[:-1] + (corners[1:] - corners[:-1]) * ramp
    return samples - average.ravel()[: len(samples)]


def _moving_average(samples: Samples, width: int) -> Samples:
    """Average each sample and the width - 1 after it; without the last width - 1 samples."""
    total = np.zeros(len(samples) + 1)
    np.cumsum(samples, dtype=np.float64, out=total[1:])
    return ((total[width:] - total[:-width]) / width).astype(np.float32)
