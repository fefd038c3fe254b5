"""The bundle of the built-in character, as it is deployed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from shared.speech.engines.interface import ConversionOptions, Engine
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.signal.pitch import track
from shared.speech.signal.samples import resample
from tests.unit.signal import signals
from tools.bundles.trial import speech_like

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUNDLE = Path(__file__).parents[3] / "characters/mei"
MEGABYTES = 1_000_000
AUTO = ConversionOptions()


@pytest.fixture(scope="module")
def mei() -> Engine:
    return build_engine(load_character(BUNDLE, ENGINES), SessionSettings())


@pytest.fixture(scope="module")
def recording() -> NDArray[np.float32]:
    return speech_like(5.0, signals.RATE)


def test_the_bundle_is_small_and_credits_the_voice() -> None:
    manifest = load_character(BUNDLE, ENGINES).manifest
    files = [path for path in BUNDLE.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 15 * MEGABYTES
    assert "Nagoya Institute of Technology" in manifest.credit
    assert manifest.licence.spdx == "CC-BY-3.0"
    assert (manifest.name.ja, manifest.name.en) == ("メイ", "Mei")


def test_speech_becomes_as_high_as_the_character_with_its_own_melody(
    mei: Engine, recording: NDArray[np.float32]
) -> None:
    pitch = load_character(BUNDLE, ENGINES).manifest.pitch
    assert pitch is not None
    spoken = track(recording).hertz
    converted = track(resample(mei.convert(recording, signals.RATE, AUTO), 24_000, 16_000)).hertz
    both = (spoken > 0) & (converted > 0)
    assert both.sum() > 150
    assert np.corrcoef(np.log(spoken[both]), np.log(converted[both]))[0, 1] >= 0.95
    assert np.median(converted[both]) == pytest.approx(pitch.median_hz, rel=0.05)


def test_no_voiced_stretch_of_more_than_60_ms_comes_out_silent(
    mei: Engine, recording: NDArray[np.float32]
) -> None:
    converted = mei.convert(recording, signals.RATE, AUTO)
    heard = track(recording).hertz > 0
    power = np.add.reduceat(converted**2, np.arange(0, len(converted), 240)) / 240
    missing = heard[: len(power)] & (power < 10 ** (-45 / 10))
    longest = max(
        (len(run) for run in "".join("01"[int(frame)] for frame in missing).split("0")), default=0
    )
    assert longest <= 6


def test_silence_stays_silence(mei: Engine) -> None:
    assert signals.decibels(mei.convert(signals.silence(2.0), signals.RATE, AUTO)) < -60


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_the_length_is_exact_and_nothing_clips_at_any_rate(mei: Engine, rate: int) -> None:
    recording = speech_like(1.237, rate) * np.float32(3)
    converted = mei.convert(recording, rate, AUTO)
    assert len(converted) == int(np.floor(len(recording) * 24_000 / rate + 0.5))
    assert np.max(np.abs(converted)) <= 0.99


def test_the_same_seed_gives_the_same_bytes(mei: Engine, recording: NDArray[np.float32]) -> None:
    once = mei.convert(recording, signals.RATE, ConversionOptions(seed=3))
    again = mei.convert(recording, signals.RATE, ConversionOptions(seed=3))
    other = mei.convert(recording, signals.RATE, ConversionOptions(seed=4))
    assert once.tobytes() == again.tobytes()
    assert once.tobytes() != other.tobytes()


@pytest.mark.parametrize("ratio", [15.0, 5.0])
def test_noise_drops_no_speech(mei: Engine, recording: NDArray[np.float32], ratio: float) -> None:
    clean = mei.convert(recording, signals.RATE, AUTO)
    noisy = mei.convert(signals.with_noise(recording, ratio), signals.RATE, AUTO)
    levels = [
        np.add.reduceat(sound**2, np.arange(0, len(sound), 1_200)) for sound in (clean, noisy)
    ]
    loud = levels[0] > 0.1 * np.max(levels[0])
    assert (levels[1][loud] > 0.01 * np.median(levels[1][loud])).all()
