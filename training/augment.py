"""What rooms, microphones and lines do to speech, made ahead because it needs the samples."""

from io import BytesIO

import numpy as np
import scipy.signal
import soundfile

from training.features import RATE, Floats

Generator = np.random.Generator


def room(wave: Floats, random: Generator) -> Floats:
    """Reverberation by exponentially decaying noise (0.1 to 0.5 s) after the direct sound."""
    length = int(random.uniform(0.1, 0.5) * RATE)
    decay = np.exp(-6.9 * np.arange(length) / length)
    response = random.standard_normal(length) * decay * random.uniform(0.004, 0.05)
    response[0] = 1
    result: Floats = scipy.signal.fftconvolve(wave, response)[: len(wave)].astype(np.float32)
    return result


def line(wave: Floats, random: Generator) -> Floats:
    """A smooth random equaliser (+-6 dB), often with an upper and a lower band limit."""
    spectrum = np.fft.rfft(wave)
    hertz = np.fft.rfftfreq(len(wave), 1 / RATE)
    gain = np.ones_like(hertz)
    if random.random() < 0.5:
        edge, order = random.uniform(3000, 7600), random.choice([8, 16, 40])
        gain /= np.sqrt(1 + (hertz / edge) ** order)
    if random.random() < 0.5:
        gain /= np.sqrt(1 + (random.uniform(60, 330) / np.maximum(hertz, 1)) ** 4)
    knots = np.linspace(np.log(60), np.log(8000), 6)
    decibels = np.interp(np.log(np.maximum(hertz, 60)), knots, random.normal(0, 3.5, 6))
    result: Floats = np.fft.irfft(spectrum * gain * 10 ** (decibels / 20), len(wave)).astype(
        np.float32
    )
    return result


def noise(wave: Floats, random: Generator, decibels: float) -> Floats:
    """Noise of a random colour, so many decibels below the speech."""
    loud = np.abs(wave) > 0.05 * np.abs(wave).max()
    level = np.sqrt((wave[loud] ** 2).mean() + 1e-12)
    sound = random.standard_normal(len(wave))
    if random.random() < 0.6:
        sound = scipy.signal.lfilter([1], [1, -random.uniform(0.3, 0.97)], sound)
    sound *= level / (sound.std() + 1e-9) * 10 ** (-decibels / 20)
    return (wave + sound).astype(np.float32)


def codec(wave: Floats, random: Generator) -> Floats:
    """Through Opus or MP3 and back; unchanged where the lengths do not come back."""
    file = BytesIO()
    peak = max(float(np.abs(wave).max()), 1e-6)
    kind, subtype = ("OGG", "OPUS") if random.random() < 0.7 else ("MP3", "MPEG_LAYER_III")
    level = float(random.uniform(0.5, 1.0))
    soundfile.write(
        file, wave / peak * 0.8, RATE, format=kind, subtype=subtype, compression_level=level
    )
    file.seek(0)
    decoded, _ = soundfile.read(file, dtype="float32")
    if kind == "MP3" or abs(len(decoded) - len(wave)) > RATE // 100:
        return wave if kind == "OGG" else _aligned(decoded, wave)
    return np.resize(decoded, len(wave)).astype(np.float32) * peak


def _aligned(decoded: Floats, wave: Floats) -> Floats:
    probe = wave[: RATE * 2]
    window = decoded[: len(probe) + 4000]
    shift = (
        int(np.argmax(scipy.signal.correlate(window, probe, mode="valid")))
        if len(window) > len(probe)
        else 0
    )
    result = np.pad(
        decoded[shift : shift + len(wave)], (0, max(0, len(wave) - len(decoded[shift:])))
    )
    return result[: len(wave)].astype(np.float32)


def spoil(wave: Floats, random: Generator) -> Floats:
    """A random chain of the above; now and then none of it."""
    if random.random() < 0.45:
        wave = room(wave, random)
    if random.random() < 0.6:
        wave = line(wave, random)
    if random.random() < 0.55:
        wave = noise(wave, random, random.uniform(8, 40))
    if random.random() < 0.12:
        wave = codec(wave, random)
    return wave
