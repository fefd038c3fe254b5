"""Rooms, microphones and lines, applied to speech before the training because they need samples."""

from io import BytesIO

import numpy as np
import scipy.signal
import soundfile
import torch
from torch import Tensor
from torch.nn import functional

from tools.training.decoder.features import RATE, Floats

Generator = np.random.Generator


def room(wave: Floats, random: Generator) -> Floats:
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
    loud = np.abs(wave) > 0.05 * np.abs(wave).max()
    level = np.sqrt((wave[loud] ** 2).mean() + 1e-12)
    sound = random.standard_normal(len(wave))
    if random.random() < 0.6:
        sound = scipy.signal.lfilter([1], [1, -random.uniform(0.3, 0.97)], sound)
    sound *= level / (sound.std() + 1e-9) * 10 ** (-decibels / 20)
    return (wave + sound).astype(np.float32)


def codec(wave: Floats, random: Generator) -> Floats:
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
        return wave if kind == "OGG" else align(decoded, wave)
    return np.resize(decoded, len(wave)).astype(np.float32) * peak


def align(decoded: Floats, wave: Floats) -> Floats:
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
    if random.random() < 0.45:
        wave = room(wave, random)
    if random.random() < 0.6:
        wave = line(wave, random)
    if random.random() < 0.55:
        wave = noise(wave, random, random.uniform(8, 40))
    if random.random() < 0.12:
        wave = codec(wave, random)
    return wave


def spoil_one_way(wave: Floats, random: Generator) -> Floats:
    """A room, a telephone or noise alone, at a random level, and harsher than in `spoil`."""
    which = random.random()
    if which < 0.25:
        return hall(wave, random, random.uniform(0.2, 0.8), random.uniform(-8, 2))
    if which < 0.45:
        return telephone(wave, random)
    if which < 0.6:
        return noise(room(wave, random), random, random.uniform(5, 25))
    return noise(wave, random, random.uniform(3, 22))


def hall(wave: Floats, random: Generator, seconds: float, decibels: float) -> Floats:
    """Reverberation that falls by 60 dB in so many seconds, so many dB above the direct sound."""
    length = int(seconds * RATE)
    tail = random.standard_normal(length) * np.exp(-6.9 * np.arange(length) / length)
    tail[: RATE // 200] = 0
    tail *= 10 ** (decibels / 20) / np.sqrt((tail**2).sum())
    tail[0] = 1
    result: Floats = scipy.signal.fftconvolve(wave, tail)[: len(wave)].astype(np.float32)
    return result


def telephone(wave: Floats, random: Generator) -> Floats:
    edges = [random.uniform(150, 350), random.uniform(2800, 3800)]
    order = int(random.integers(2, 7))
    band = scipy.signal.butter(order, edges, "bandpass", fs=RATE, output="sos")
    narrow: Floats = scipy.signal.sosfilt(band, wave).astype(np.float32)
    return noise(narrow, random, random.uniform(15, 40)) if random.random() < 0.5 else narrow


class Disturbance:
    def __init__(self, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed)

    def doubt(self, voiced: Tensor) -> Tensor:
        """Voicing as an erring tracker sees it: soft, late, flipped for a while, or unknown."""
        count, frames = voiced.shape
        soft = functional.avg_pool1d(
            functional.pad(voiced[:, None], (2, 2), mode="replicate"), 5, 1
        )[:, 0]
        seen = torch.where(self._sometimes(count, 0.5)[:, None], soft, voiced)
        seen = (
            seen * (0.75 + 0.25 * self._uniform(count, 1)) + 0.1 * self._uniform(count, 1)
        ).clamp(0, 1)
        flips = functional.max_pool1d((self._uniform(count, 1, frames) < 0.015).float(), 7, 1, 3)[
            :, 0
        ]
        flips = flips * self._sometimes(count, 0.6)[:, None]
        seen = seen * (1 - flips) + (1 - seen) * flips
        return torch.where(self._sometimes(count, 0.25)[:, None], torch.full_like(seen, 0.5), seen)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._random)

    def _sometimes(self, count: int, share: float) -> Tensor:
        return self._uniform(count) < share
