"""The engine of the conversion container, as the harness uses it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from speech.bundles.files import BundleError
from speech.bundles.reading import load_character
from speech.engines.interface.engine import ConversionOptions, Engine
from speech.engines.registry import ENGINES, build_engine
from speech.networks.settings import SessionSettings
from speech.results.watermark.embedding import Watermark
from speech.results.watermark.pattern import SHORTEST_KEY, WatermarkKey
from training.sound.features import RATE, Floats

_SLICE = 960  # samples of 60 ms, as the page sends them


@dataclass(frozen=True)
class Converter:
    """Converts with a bundle's own engine on one thread."""

    engine: Engine

    @classmethod
    def of(cls, bundle: Path) -> "Converter":
        """Loads a bundle as the container does."""
        return cls(build_engine(load_character(bundle, ENGINES), SessionSettings(threads=1)))

    def raw(self, wave: Floats, rate: int = RATE, seed: int = 0) -> Floats:
        """The engine's own output."""
        options = ConversionOptions(seed=seed)
        return self.engine.convert(np.ascontiguousarray(wave, np.float32), rate, options)

    def heard(self, wave: Floats) -> Floats:
        """As it is heard while it is spoken, otherwise as a call gives it.

        Raises:
            BundleError: the character converts only whole recordings.
        """
        stream = self.engine.open_stream(RATE, ConversionOptions(seed=0))
        if stream is None:
            raise BundleError("the character cannot be heard while somebody speaks.")
        pieces = [stream.push(wave[at : at + _SLICE]) for at in range(0, len(wave), _SLICE)]
        return self._at_16_khz(np.concatenate([*pieces, stream.finish()]), len(wave))

    def again(self, wave: Floats) -> Floats:
        """As a call gives it, with noise from another seed: what differs is chance."""
        return self._at_16_khz(self.raw(wave, seed=1), len(wave))

    def marked(self, wave: Floats) -> Floats:
        """As a call gives it, with a watermark as results of a service have it."""
        watermark = Watermark(WatermarkKey(bytes(SHORTEST_KEY)), 1, self.engine.sample_rate)
        return self._at_16_khz(watermark.mark(self.raw(wave), 0), len(wave))

    def __call__(self, wave: Floats) -> Floats:
        """Converted, at 16 kHz and as long as the input, for the measures."""
        return self._at_16_khz(self.raw(wave), len(wave))

    def _at_16_khz(self, voice: Floats, length: int) -> Floats:
        result: Floats = soxr.resample(voice, self.engine.sample_rate, RATE)
        return np.pad(result, (0, max(0, length - len(result))))[:length].astype(np.float32)
