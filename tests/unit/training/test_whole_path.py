"""The whole path in small: data, training, export, and the bundle in the real engine."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from speech.bundles.reading import load_character
from speech.engines.interface.engine import ConversionOptions
from speech.engines.registry import ENGINES, build_engine
from speech.networks.settings import SessionSettings
from training.__main__ import Effort, Places, make_data, train, write_bundle

PROGRAMS = ("hts_engine", "flite", "festival", "espeak-ng")
TINY = Effort(generate_minutes=0.3, processes=1, train_minutes=0.15, sentences=1)


@pytest.mark.training
@pytest.mark.skipif(
    any(shutil.which(program) is None for program in PROGRAMS),
    reason=f"needs {', '.join(PROGRAMS)}",
)
@pytest.mark.filterwarnings("ignore")  # the exporter warns of its own deprecations
def test_a_quick_training_ends_in_a_bundle_that_converts(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path / "mei")
    make_data(places, TINY)
    train(places, TINY)
    write_bundle(places)
    engine = build_engine(load_character(places.bundle, ENGINES), SessionSettings())
    wave = np.random.default_rng(1).standard_normal(16_000).astype(np.float32) * 0.1
    assert len(engine.convert(wave, 16_000, ConversionOptions())) == 24_000
