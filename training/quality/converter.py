"""The engine of the conversion container, as the harness uses it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from speech.bundles.reading import load_character
from speech.engines.interface.engine import ConversionOptions, Engine
from speech.engines.registry import ENGINES, build_engine
from speech.networks.settings import SessionSettings
from training.features import RATE, Floats


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

    def __call__(self, wave: Floats) -> Floats:
        """Converted, at 16 kHz and as long as the input, for the measures."""
        result: Floats = soxr.resample(self.raw(wave), self.engine.sample_rate, RATE)
        return np.pad(result, (0, max(0, len(wave) - len(result))))[: len(wave)].astype(np.float32)
