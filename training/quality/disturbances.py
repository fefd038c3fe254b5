"""What happens to recordings before they arrive: noise, lines, rooms, levels, codecs."""

import subprocess
from collections.abc import Callable

import numpy as np
import scipy.signal

from training.features import RATE, Floats

SEED = 7
# A bare AAC stream does not say that its first frame is the encoder's delay.
AAC_PRIMING = 1024


def noise(decibels: float) -> Callable[[Floats], Floats]:
    """Build the disturbance that adds noise so many decibels below the speech."""

    def add(wave: Floats) -> Floats:
        random = np.random.default_rng(SEED)
        sound = scipy.signal.lfilter([1], [1, -0.7], random.standard_normal(len(wave)))
        loud = np.abs(wave) > 0.05 * np.abs(wave).max()
        level = np.sqrt((wave[loud] ** 2).mean())
        scale = level / sound.std() * 10 ** (-decibels / 20)
        return (wave + sound * scale).astype(np.float32)

    return add


def telephone(wave: Floats) -> Floats:
    """From 300 to 3400 Hz."""
    band = scipy.signal.butter(6, [300, 3400], "bandpass", fs=RATE, output="sos")
    return scipy.signal.sosfilt(band, wave).astype(np.float32)


def room(wave: Floats) -> Floats:
    """A room of 0.4 s, direct sound 3 dB above the rest."""
    random = np.random.default_rng(SEED)
    length = int(0.4 * RATE)
    tail = random.standard_normal(length) * np.exp(-6.9 * np.arange(length) / length)
    tail[: RATE // 200] = 0
    tail *= 10 ** (-3 / 20) / np.sqrt((tail**2).sum())
    tail[0] = 1
    return scipy.signal.fftconvolve(wave, tail)[: len(wave)].astype(np.float32)


def _gain(decibels: float) -> Callable[[Floats], Floats]:
    def change(wave: Floats) -> Floats:
        return np.clip(wave * 10 ** (decibels / 20), -1, 1).astype(np.float32)

    return change


def _codec(container: str, *options: str, delay: int = 0) -> Callable[[Floats], Floats]:
    raw = ["-f", "f32le", "-ar", str(RATE), "-ac", "1"]

    def through(wave: Floats) -> Floats:
        encode = ["ffmpeg", "-v", "error", *raw, "-i", "-", *options, "-f", container, "-"]
        coded = subprocess.run(encode, input=wave.tobytes(), capture_output=True, check=True).stdout
        decode = ["ffmpeg", "-v", "error", "-i", "-", *raw, "-"]
        decoded = subprocess.run(decode, input=coded, capture_output=True, check=True).stdout
        samples = np.frombuffer(decoded, np.float32)[delay:]
        return np.pad(samples[: len(wave)], (0, max(0, len(wave) - len(samples))))

    return through


DISTURBANCES: dict[str, Callable[[Floats], Floats]] = {
    "as it is": lambda wave: wave,
    "noise 30 dB": noise(30),
    "noise 15 dB": noise(15),
    "noise 5 dB": noise(5),
    "telephone band": telephone,
    "room, 0.4 s": room,
    "30 dB quieter": _gain(-30),
    "12 dB too loud, clipped": _gain(12),
    "Opus 32 kbit/s": _codec("ogg", "-c:a", "libopus", "-b:a", "32k"),
    "Opus 16 kbit/s": _codec("ogg", "-c:a", "libopus", "-b:a", "16k"),
    "AAC 48 kbit/s": _codec("adts", "-c:a", "aac", "-b:a", "48k", delay=AAC_PRIMING),
}
