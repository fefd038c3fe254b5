"""The character that hears with the shared content encoder, as she is deployed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from shared.characters.manifest import ENCODERS
from shared.speech.engines.content_encoder import ContentEncoder
from shared.speech.engines.interface import ConversionOptions, Engine
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import GraphSession, SessionSettings
from shared.speech.signal.analysis import Chunk, analyse
from shared.speech.signal.pitch import track
from shared.speech.signal.samples import resample
from shared.speech.signal.sound import NoClock
from tests.unit.signal import signals
from tools.bundles.trial import speech_like

if TYPE_CHECKING:
    from shared.speech.graphs.bundle import CharacterBundle

CHARACTERS = Path(__file__).parents[3] / "characters"
BUNDLE = CHARACTERS / "hina"
MEGABYTES = 1_000_000
AUTO = ConversionOptions()


@pytest.fixture(scope="module")
def character() -> CharacterBundle:
    return load_character(BUNDLE, ENGINES)


@pytest.fixture(scope="module")
def hina(character: CharacterBundle) -> Engine:
    return build_engine(character, SessionSettings())


def test_the_bundle_is_small_because_characters_share_the_encoder(
    character: CharacterBundle,
) -> None:
    own = [path for path in BUNDLE.iterdir() if path.is_file()]
    encoder = CHARACTERS / ENCODERS / f"{character.manifest.graphs['content'].sha256}.onnx"

    assert sum(path.stat().st_size for path in own) <= 5 * MEGABYTES
    assert encoder.stat().st_size <= 45 * MEGABYTES


def test_the_bundle_says_what_the_voice_is_mixed_of(character: CharacterBundle) -> None:
    manifest = character.manifest

    assert (manifest.name.ja, manifest.name.en) == ("ひな", "Hina")
    assert manifest.licence.spdx == "Apache-2.0"
    assert "Koniwa" in manifest.credit
    assert "Kokoro-82M" in (BUNDLE / "MODEL_CARD.md").read_text("utf-8")


def test_a_recording_becomes_as_high_as_she_is_and_keeps_its_length_and_melody(
    character: CharacterBundle, hina: Engine
) -> None:
    recording = speech_like(3.0, signals.RATE)

    voice = hina.convert(recording, signals.RATE, AUTO)

    assert character.manifest.pitch is not None
    assert len(voice) == 3 * hina.sample_rate
    spoken = track(recording).hertz
    converted = track(resample(voice, hina.sample_rate, signals.RATE)).hertz
    both = (spoken > 0) & (converted > 0)
    assert both.sum() > 60
    assert abs(np.log(np.median(converted[both]) / character.manifest.pitch.median_hz)) < 0.15
    assert np.corrcoef(np.log(spoken[both]), np.log(converted[both]))[0, 1] >= 0.9


@pytest.mark.parametrize("seconds", [0.1, 0.55, 31.0])
def test_short_and_long_recordings_keep_their_length(hina: Engine, seconds: float) -> None:
    recording = speech_like(seconds, signals.RATE)

    voice = hina.convert(recording, signals.RATE, AUTO)

    assert len(voice) == round(seconds * hina.sample_rate)
    assert np.abs(voice).max() <= 0.99
    assert np.isfinite(voice).all()


def test_silence_stays_silence(hina: Engine) -> None:
    assert signals.decibels(hina.convert(signals.silence(2.0), signals.RATE, AUTO)) < -60


@pytest.mark.parametrize("decibels", [-20.0, -32.0])
def test_a_quiet_recording_is_heard_like_a_loud_one(
    character: CharacterBundle, decibels: float
) -> None:
    loud = speech_like(3.0, signals.RATE)
    loud *= np.float32(0.5 / np.abs(loud).max())
    encoder = ContentEncoder(GraphSession(character.graphs["content"], SessionSettings()))
    chunks = [Chunk(0, 300, 0, 300)]

    expected, heard = (
        encoder.hear(analyse(loud * np.float32(gain), signals.RATE, NoClock()), chunks)[0]
        for gain in (1.0, 10.0 ** (decibels / 20.0))
    )

    assert expected is not None
    assert heard is not None
    assert np.abs(heard - expected).mean() <= 0.02 * np.abs(expected).mean()


def test_the_same_recording_gives_the_same_samples(hina: Engine) -> None:
    recording = speech_like(1.5, signals.RATE)

    one, other = (hina.convert(recording, signals.RATE, AUTO) for _ in range(2))

    np.testing.assert_array_equal(one, other)


def test_while_speaking_she_has_the_melody_and_the_level_of_the_whole_conversion(
    hina: Engine,
) -> None:
    recording = speech_like(3.0, signals.RATE)
    stream = hina.open_stream(signals.RATE, AUTO)
    assert stream is not None

    pieces = [stream.push(recording[at : at + 960]) for at in range(0, len(recording), 960)]
    heard = np.concatenate([*pieces, stream.finish()])
    whole = hina.convert(recording, signals.RATE, AUTO)

    assert len(heard) == len(whole)
    found, wanted = (
        track(resample(voice, hina.sample_rate, signals.RATE)).hertz for voice in (heard, whole)
    )
    both = (found > 0) & (wanted > 0)
    both[:100] = False  # at first nobody knows how high the speaker speaks
    assert both.sum() > 30
    assert np.median(np.abs(np.log2(found[both] / wanted[both]))) < 0.1
    later = slice(hina.sample_rate, None)
    levels = [20 * np.log10(np.sqrt(np.square(voice[later]).mean())) for voice in (heard, whole)]
    assert abs(levels[0] - levels[1]) < 3
