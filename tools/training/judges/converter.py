"""The engine of the conversion container, as the harness uses it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.signal
import soxr

from shared.characters.bundle_files import BundleError
from shared.speech.engines.interface import ConversionOptions, Engine
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.results.watermark import SHORTEST_KEY, Watermark, WatermarkKey
from tools.training.decoder.disturbance import hall
from tools.training.decoder.features import RATE, Floats

_SLICE = 960  # samples of 60 ms, as the page sends them


@dataclass(frozen=True)
class BundleConverter:
    engine: Engine

    @classmethod
    def of(cls, bundle: Path) -> "BundleConverter":
        return cls(build_engine(load_character(bundle, ENGINES), SessionSettings(threads=1)))

    def raw(self, wave: Floats, rate: int = RATE, seed: int = 0) -> Floats:
        options = ConversionOptions(seed=seed)
        return self.engine.convert(np.ascontiguousarray(wave, np.float32), rate, options)

    def heard(self, wave: Floats) -> Floats:
        stream = self.engine.open_stream(RATE, ConversionOptions(seed=0))
        if stream is None:
            raise BundleError("the character cannot be heard while somebody speaks.")
        pieces = [stream.push(wave[at : at + _SLICE]) for at in range(0, len(wave), _SLICE)]
        return self._at_16_khz(np.concatenate([*pieces, stream.finish()]), len(wave))

    def again(self, wave: Floats) -> Floats:
        return self._at_16_khz(self.raw(wave, seed=1), len(wave))

    def marked(self, wave: Floats) -> Floats:
        watermark = Watermark(WatermarkKey(bytes(SHORTEST_KEY)), 1, self.engine.sample_rate)
        return self._at_16_khz(watermark.mark(self.raw(wave), 0), len(wave))

    def __call__(self, wave: Floats) -> Floats:
        return self._at_16_khz(self.raw(wave), len(wave))

    def _at_16_khz(self, voice: Floats, length: int) -> Floats:
        result: Floats = soxr.resample(voice, self.engine.sample_rate, RATE)
        return np.pad(result, (0, max(0, length - len(result))))[:length].astype(np.float32)


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
    band = scipy.signal.butter(6, [300, 3400], "bandpass", fs=RATE, output="sos")
    return scipy.signal.sosfilt(band, wave).astype(np.float32)


def room(wave: Floats) -> Floats:
    """A room of 0.4 s, direct sound 3 dB above the rest."""
    return hall(wave, np.random.default_rng(SEED), 0.4, -3)
