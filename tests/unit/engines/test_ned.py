"""The second character of the box, as it is deployed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shared.characters.manifest import BUILT_IN, read_manifests
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.signal.pitch import track
from shared.speech.signal.samples import resample
from tests.unit.signal import signals
from tools.bundles.trial import speech_like

CHARACTERS = Path(__file__).parents[3] / "characters"
BUNDLE = CHARACTERS / "ned"
MEGABYTES = 1_000_000


def test_hina_comes_first_so_that_she_is_who_speaks_when_nobody_is_chosen() -> None:
    built_in = [name for name in read_manifests(CHARACTERS) if name in BUILT_IN]

    assert built_in == list(read_manifests(CHARACTERS))[:3] == ["hina", "mei", "ned"]


def test_the_bundle_is_small_and_says_whose_voice_it_is_and_who_allowed_it() -> None:
    manifest = load_character(BUNDLE, ENGINES).manifest
    files = [path for path in BUNDLE.iterdir() if path.is_file()]

    assert sum(path.stat().st_size for path in files) <= 8 * MEGABYTES
    assert manifest.licence.spdx == "MIT-Festival"
    assert "Kevin Lenzo" in manifest.credit
    assert "do not endorse" in manifest.consent
    # The licence wants its text and its names to go with what is made of the voice.
    card = (BUNDLE / "MODEL_CARD.md").read_text("utf-8")
    assert "Permission is hereby granted" in card
    assert "Copyright (c) 1999-2001" in card


def test_a_recording_becomes_as_high_as_he_is_and_keeps_its_length_and_melody() -> None:
    character = load_character(BUNDLE, ENGINES)
    assert character.manifest.pitch is not None
    recording = speech_like(2.0, signals.RATE)
    engine = build_engine(character, SessionSettings())

    voice = engine.convert(recording, signals.RATE, ConversionOptions())

    assert len(voice) == 2 * engine.sample_rate
    assert np.abs(voice).max() <= 0.99
    spoken = track(recording).hertz
    converted = track(resample(voice, engine.sample_rate, signals.RATE)).hertz
    both = (spoken > 0) & (converted > 0)
    assert both.sum() > 60
    assert abs(np.log(np.median(converted[both]) / character.manifest.pitch.median_hz)) < 0.15
    assert np.corrcoef(np.log(spoken[both]), np.log(converted[both]))[0, 1] >= 0.9
