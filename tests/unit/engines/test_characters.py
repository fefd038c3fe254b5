"""The built-in characters and their shared content encoder, as they are deployed."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.characters.manifest import BUILT_IN, ENCODERS, read_manifests
from shared.speech.engines.interface import ConversionOptions, Engine
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle import CharacterBundle
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings, shared_session
from shared.speech.signal.pitch import track
from shared.speech.signal.samples import resample
from tests.support.engine_contract import EngineContract
from tests.unit.signal import signals
from tools.bundles.trial import speech_like

ROOT = Path(__file__).parents[3]
CHARACTERS = ROOT / "characters"
MEGABYTES = 1_000_000
AUTO = ConversionOptions()
SETTINGS = SessionSettings()
# The largest number in the reference is 4.4, stored with steps of up to 0.004.
MOST_DIFFERENCE = 0.005


@cache
def character(name: str) -> CharacterBundle:
    return load_character(CHARACTERS / name, ENGINES)


@cache
def built(name: str) -> Engine:
    return build_engine(character(name), SETTINGS)


def hertz(voice: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    return track(resample(voice, rate, signals.RATE)).hertz


class TestMei(EngineContract):
    least_seconds = 0.1

    @pytest.fixture
    def engine(self) -> Engine:
        return built("mei")


def test_hina_comes_first_so_that_she_is_who_speaks_when_nobody_is_chosen() -> None:
    built_in = [name for name in read_manifests(CHARACTERS) if name in BUILT_IN]

    assert built_in == list(read_manifests(CHARACTERS))[:3] == ["hina", "mei", "ned"]


@pytest.mark.parametrize(
    ("name", "megabytes", "licence", "credit", "card"),
    [
        ("hina", 10, "Apache-2.0", "Koniwa", ["Kokoro-82M"]),
        ("mei", 15, "CC-BY-3.0", "Nagoya Institute of Technology", []),
        # Ned's licence wants its text and its names to go with what is made of the voice.
        ("ned", 10, "MIT-Festival", "Kevin Lenzo", ["Permission is", "Copyright (c) 1999-2001"]),
    ],
)
def test_a_bundle_is_small_and_credits_the_voice(
    name: str, megabytes: int, licence: str, credit: str, card: list[str]
) -> None:
    manifest = character(name).manifest
    files = [path for path in (CHARACTERS / name).iterdir() if path.is_file()]

    assert sum(path.stat().st_size for path in files) <= megabytes * MEGABYTES
    assert manifest.licence.spdx == licence
    assert credit in manifest.credit
    text = (CHARACTERS / name / "MODEL_CARD.md").read_text("utf-8")
    assert all(each in text for each in card)


@pytest.mark.parametrize(
    ("name", "seconds", "voiced", "apart", "likeness"),
    [
        ("hina", 3.0, 60, 0.15, 0.9),
        ("mei", 5.0, 150, np.log(1.05), 0.95),
        ("ned", 2.0, 60, 0.15, 0.9),
    ],
)
def test_a_recording_becomes_as_high_as_the_character_and_keeps_its_length_and_melody(
    name: str, seconds: float, voiced: int, apart: float, likeness: float
) -> None:
    sound, engine = speech_like(seconds, signals.RATE), built(name)
    pitch = character(name).manifest.pitch
    assert pitch is not None

    voice = engine.convert(sound, signals.RATE, AUTO)

    assert len(voice) == seconds * engine.sample_rate
    assert np.abs(voice).max() <= 0.99
    spoken, converted = track(sound).hertz, hertz(voice, engine.sample_rate)
    both = (spoken > 0) & (converted > 0)
    assert both.sum() > voiced
    assert abs(np.log(np.median(converted[both]) / pitch.median_hz)) < apart
    assert np.corrcoef(np.log(spoken[both]), np.log(converted[both]))[0, 1] >= likeness


def test_while_speaking_she_has_the_melody_and_the_level_of_the_whole_conversion() -> None:
    hina, sound = built("hina"), speech_like(3.0, signals.RATE)
    stream = hina.open_stream(signals.RATE, AUTO)
    assert stream is not None

    pieces = [stream.push(sound[at : at + 960]) for at in range(0, len(sound), 960)]
    heard = np.concatenate([*pieces, stream.finish()])
    whole = hina.convert(sound, signals.RATE, AUTO)

    assert len(heard) == len(whole)
    found, wanted = (hertz(voice, hina.sample_rate) for voice in (heard, whole))
    both = (found > 0) & (wanted > 0)
    both[:100] = False  # at first nobody knows how high the speaker speaks
    assert both.sum() > 30
    assert np.median(np.abs(np.log2(found[both] / wanted[both]))) < 0.1
    later = slice(hina.sample_rate, None)
    assert abs(signals.decibels(heard[later]) - signals.decibels(whole[later])) < 3


def test_no_speech_is_dropped_in_silence_or_noise() -> None:
    recording = speech_like(5.0, signals.RATE)
    clean, noisy = (
        built("mei").convert(sound, signals.RATE, AUTO)
        for sound in (recording, signals.with_noise(recording, 5.0))
    )
    power = np.add.reduceat(clean**2, np.arange(0, len(clean), 240)) / 240
    missing = (track(recording).hertz > 0)[: len(power)] & (power < 10 ** (-45 / 10))
    runs = "".join("01"[int(frame)] for frame in missing).split("0")
    assert max(map(len, runs), default=0) <= 6, "60 ms of a voiced stretch"

    levels = [np.add.reduceat(each**2, np.arange(0, len(each), 1_200)) for each in (clean, noisy)]
    loud = levels[0] > 0.1 * np.max(levels[0])
    assert (levels[1][loud] > 0.01 * np.median(levels[1][loud])).all()


def hear(wave: NDArray[np.float32]) -> NDArray[np.float32]:
    encoder = shared_session(character("hina").graphs["content"], SETTINGS)
    content: NDArray[np.float32] = encoder.run({"wave": wave[None]}, "content")[0]
    return content


def test_the_encoder_hears_what_the_published_one_hears_in_another_implementation() -> None:
    with np.load(ROOT / "tests" / "data" / "content" / "ctranslate2.npz") as reference:
        wave = np.asarray(reference["wave"], np.float32) / np.float32(32_768)
        expected = reference["content"].astype(np.float32)

    found = hear(wave)

    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < MOST_DIFFERENCE
    for decibels in (-20, 12):  # how loud a recording is makes no difference
        louder = hear(wave * np.float32(10 ** (decibels / 20)))
        assert np.abs(louder - found).max() < MOST_DIFFERENCE
    sha256 = character("hina").manifest.graphs["content"].sha256
    assert (CHARACTERS / ENCODERS / f"{sha256}.onnx").stat().st_size <= 45 * MEGABYTES
