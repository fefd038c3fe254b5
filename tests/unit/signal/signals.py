"""Signals like those of a voice, of which everything is known."""

import numpy as np
from numpy.typing import NDArray

RATE = 16_000


def glide(start: float, end: float, seconds: float, vibrato: float = 0.0) -> NDArray[np.float64]:
    """Make a contour in Hz, one value per sample, from start to end on a logarithmic line."""
    at = np.arange(round(seconds * RATE)) / RATE
    line = start * (end / start) ** (at / seconds)
    contour: NDArray[np.float64] = line * (1 + vibrato * np.sin(2 * np.pi * 5.5 * at))
    return contour


def voice(
    hertz: NDArray[np.float64], formants: tuple[float, ...] = (600, 1200, 2600)
) -> NDArray[np.float32]:
    """Make a vowel of all harmonics below 4 kHz of a contour, shaped by formants; RMS 0.1."""
    phase = 2 * np.pi * np.cumsum(hertz) / RATE
    sound = np.zeros(len(hertz))
    for harmonic in range(1, int(4_000 / hertz.min()) + 1):
        frequency = harmonic * hertz
        gain = sum(1 / (1 + ((frequency - formant) / 90) ** 2) for formant in formants)
        sound += np.where(frequency < 4_000, gain, 0) * np.sin(harmonic * phase + harmonic**2)
    return level(sound.astype(np.float32), -20.0)


def hiss(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    """Make white noise; RMS 0.1."""
    random = np.random.default_rng(seed)
    return level(random.standard_normal(round(seconds * RATE)).astype(np.float32), -20.0)


def whisper(seconds: float) -> NDArray[np.float32]:
    """Make noise through three formants, in syllables; RMS about -30 dBFS."""
    noise = hiss(seconds, seed=3)
    spectrum = np.fft.rfft(noise)
    frequency = np.fft.rfftfreq(len(noise), 1 / RATE)
    gain = sum(1 / (1 + ((frequency - formant) / 150) ** 2) for formant in (700, 1500, 2700))
    syllables = np.clip(np.sin(2 * np.pi * 2.5 * np.arange(len(noise)) / RATE) + 0.5, 0, 1)
    return level((np.fft.irfft(spectrum * gain, len(noise)) * syllables).astype(np.float32), -30.0)


def silence(seconds: float) -> NDArray[np.float32]:

    return np.zeros(round(seconds * RATE), np.float32)


def level(sound: NDArray[np.float32], decibels: float) -> NDArray[np.float32]:
    """Bring a sound's RMS to a level in dB of full scale."""
    scaled: NDArray[np.float32] = sound * np.float32(10 ** (decibels / 20) / rms(sound))
    return scaled


def rms(sound: NDArray[np.float32]) -> float:

    return float(np.sqrt(np.mean(sound.astype(np.float64) ** 2)))


def decibels(sound: NDArray[np.float32]) -> float:
    """Measure the level in dB of full scale; -200 for nothing."""
    return float(20 * np.log10(max(rms(sound), 1e-10)))


def with_noise(sound: NDArray[np.float32], ratio: float, seed: int = 1) -> NDArray[np.float32]:
    """Add white noise so many dB below the sound."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal(len(sound)).astype(np.float32)
    return sound + level(noise, decibels(sound) - ratio)


def telephone(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """Keep the frequencies from 300 to 3400 Hz."""
    spectrum = np.fft.rfft(sound)
    frequency = np.fft.rfftfreq(len(sound), 1 / RATE)
    spectrum[(frequency < 300) | (frequency > 3400)] = 0
    return np.fft.irfft(spectrum, len(sound)).astype(np.float32)
