"""What happens to recordings before they arrive: noise, lines, rooms."""

from collections.abc import Callable

import numpy as np
import scipy.signal

from training.sound.features import RATE, Floats

SEED = 7


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
