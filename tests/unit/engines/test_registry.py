from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shared.characters.bundle_files import BundleError
from shared.speech.engines.interface import ConversionOptions, Engine
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.voices.voice import ErrorCode, VoiceError
from tests.unit.graphs import small_graphs
from tests.unit.graphs.bundles import manifest, write_bundle, write_waveform_bundle
from tests.unit.signal import signals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

AUTO = ConversionOptions()


def build(folder: Path) -> Engine:
    return build_engine(load_character(folder, ENGINES), SessionSettings())


@pytest.fixture(scope="module")
def harmonic(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    graph = small_graphs.content(small_graphs.harmonic_graph(noise=0.003))
    return build(write_bundle(tmp_path_factory.mktemp("harmonic"), graph))


@pytest.fixture(scope="module")
def waveform(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return build(
        write_waveform_bundle(tmp_path_factory.mktemp("waveform"), small_graphs.gain_graph(0.5))
    )


@pytest.fixture(params=["harmonic", "waveform"])
def engine(request: pytest.FixtureRequest) -> Engine:
    built: Engine = request.getfixturevalue(request.param)
    return built


def sentence(seconds: float = 3.0) -> NDArray[np.float32]:
    """Words of half a second with pauses between."""
    words = []
    for index in range(int(seconds)):
        words += [
            signals.voice(signals.glide(110 + 10 * index, 150 - 5 * index, 0.6, vibrato=0.01)),
            signals.silence(0.4),
        ]
    return np.concatenate(words)


def spectral_peak(sound: NDArray[np.float32], rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound)), 1 << 18))
    return float(np.argmax(spectrum) * rate / (1 << 18))


@given(
    samples=st.integers(1, 30_000),
    rate=st.sampled_from([8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000]),
)
@settings(deadline=None, max_examples=40)
@example(samples=1, rate=44_100)
@example(samples=1, rate=8_000)
def test_a_conversion_lasts_exactly_as_long_as_the_recording(
    harmonic: Engine, waveform: Engine, samples: int, rate: int
) -> None:
    sound = np.resize(sentence(), samples)
    wanted = int(np.floor(samples * 24_000 / rate + 0.5))
    for engine in (harmonic, waveform):
        converted = engine.convert(sound, rate, AUTO)
        assert converted.shape == (wanted,)
        assert converted.dtype == np.float32


def test_silence_stays_silent(engine: Engine) -> None:
    random = np.random.default_rng(0)
    for sound in (
        signals.silence(2.0),
        signals.level(random.standard_normal(32_000).astype(np.float32), -62),
    ):
        assert signals.decibels(engine.convert(sound, 16_000, AUTO)) < -60


def test_pauses_stay_silent_and_words_are_heard(engine: Engine) -> None:
    converted = engine.convert(sentence(), 16_000, AUTO)
    for second in range(3):
        word = converted[second * 24_000 + 1_200 : second * 24_000 + 13_200]
        pause = converted[second * 24_000 + 20_400 : second * 24_000 + 21_600]
        assert signals.decibels(word) > -35
        assert signals.decibels(pause) < -60


@pytest.mark.parametrize("gain", [0.02, 0.2, 1.0, 9.0, 60.0])
def test_nothing_clips_at_any_level(engine: Engine, gain: float) -> None:
    converted = engine.convert(sentence() * np.float32(gain), 16_000, AUTO)
    assert np.max(np.abs(converted)) <= 0.99
    assert signals.decibels(converted) > -45


def test_the_ends_do_not_click(engine: Engine) -> None:
    sound = signals.voice(signals.glide(120, 120, 1.0))[37:]
    converted = engine.convert(sound, 16_000, AUTO)
    assert abs(float(converted[0])) < 1e-3
    assert abs(float(converted[-1])) < 1e-3
    loudest = np.max(np.abs(converted))
    assert np.max(np.abs(converted[:24])) < 0.15 * loudest
    assert np.max(np.abs(converted[-24:])) < 0.15 * loudest


def test_the_same_seed_gives_the_same_samples(harmonic: Engine) -> None:
    sound = sentence()
    first = harmonic.convert(sound, 16_000, ConversionOptions(seed=7))
    again = harmonic.convert(sound, 16_000, ConversionOptions(seed=7))
    other = harmonic.convert(sound, 16_000, ConversionOptions(seed=8))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_threads_convert_at_the_same_time_and_get_the_same(engine: Engine) -> None:
    sounds = [signals.voice(signals.glide(100 + 10 * k, 150, 1.0)) for k in range(6)]
    alone = [engine.convert(sound, 16_000, AUTO) for sound in sounds]
    start = threading.Barrier(len(sounds))

    def convert(sound: NDArray[np.float32]) -> NDArray[np.float32]:
        start.wait()
        return engine.convert(sound, 16_000, AUTO)

    with ThreadPoolExecutor(len(sounds)) as pool:
        together = list(pool.map(convert, sounds))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_auto_speaks_at_the_characters_pitch_and_semitones_at_the_speakers(
    harmonic: Engine,
) -> None:
    sound = signals.voice(signals.glide(200, 200, 1.5))
    auto = harmonic.convert(sound, 16_000, AUTO)
    assert spectral_peak(auto, 24_000) == pytest.approx(330, rel=0.01)
    higher = harmonic.convert(sound, 16_000, ConversionOptions(pitch_shift=7.0))
    assert spectral_peak(higher, 24_000) == pytest.approx(200 * 2 ** (7 / 12), rel=0.01)


def test_a_recording_of_a_minute_is_joined_without_seams(tmp_path: Path) -> None:
    # At this frequency no number of whole frames is a number of whole cycles.
    pitch = {**manifest()["pitch"], "median_hz": 333.7}
    pure = build(write_bundle(tmp_path, pitch=pitch))
    sound = signals.voice(signals.glide(150, 150, 61.0))
    converted = pure.convert(sound, 16_000, AUTO)[12_000:-12_000].astype(np.float64)
    phase = 2 * np.pi * np.arange(len(converted)) * spectral_peak_exact(converted) / 24_000
    rotated = converted * np.exp(-1j * phase)
    drift = np.unwrap(np.angle(np.convolve(rotated, np.ones(720) / 720, "valid")[::240]))
    assert np.max(np.abs(np.diff(drift))) < 0.05, "the sine jumps somewhere"
    loudness = np.abs(np.convolve(rotated, np.ones(720) / 720, "valid")[::240])
    assert np.ptp(loudness) / np.median(loudness) < 0.15, "its loudness jumps somewhere"


def spectral_peak_exact(sound: NDArray[np.float64]) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    top = int(np.argmax(spectrum))
    left, middle, right = np.log(spectrum[top - 1 : top + 2])
    shift = 0.5 * (left - right) / (left - 2 * middle + right)
    return float((top + shift) * 24_000 / len(sound))


def test_loud_and_soft_parts_of_a_long_recording_stay_loud_and_soft(harmonic: Engine) -> None:
    loud = sentence(25.0)
    sound = np.concatenate([loud, loud * np.float32(0.15)])
    converted = harmonic.convert(sound, 16_000, AUTO)
    middle = len(converted) // 2
    difference = signals.decibels(converted[:middle]) - signals.decibels(converted[middle:])
    assert 8 < difference < 20


def test_half_a_minute_of_silence_in_a_long_recording_stays_silent(engine: Engine) -> None:
    sound = np.concatenate([sentence(12.0), signals.silence(45.0), sentence(12.0)])
    converted = engine.convert(sound, 16_000, AUTO)
    assert not converted[13 * 24_000 : 56 * 24_000].any()
    assert signals.decibels(converted[: 11 * 24_000]) > -35
    assert signals.decibels(converted[-11 * 24_000 :]) > -35


def test_a_whisper_is_converted(engine: Engine) -> None:
    converted = engine.convert(signals.whisper(2.0), 16_000, AUTO)
    assert signals.decibels(converted) > -40


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_samples_that_are_not_audio_are_refused(engine: Engine, value: float) -> None:
    sound = sentence()
    sound[123] = value
    with pytest.raises(VoiceError, match="not audio") as refusal:
        engine.convert(sound, 16_000, AUTO)
    assert refusal.value.code is ErrorCode.CORRUPT


@given(
    sound=arrays.arrays(
        np.float32,
        st.integers(1, 4_000),
        elements=st.floats(-64, 64, width=32),
        fill=st.sampled_from([0.0, 1e-30, -1.0]),
    ),
    shift=st.one_of(st.none(), st.floats(-24, 24)),
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_any_finite_samples_are_converted_to_finite_samples(
    harmonic: Engine, sound: NDArray[np.float32], shift: float | None
) -> None:
    converted = harmonic.convert(sound, 16_000, ConversionOptions(pitch_shift=shift))
    assert np.isfinite(converted).all()
    assert np.max(np.abs(converted), initial=0) <= 0.99


def test_a_recording_beyond_the_characters_limits_is_refused(tmp_path: Path) -> None:
    engine = build(write_bundle(tmp_path, limits={"min_seconds": 0.5, "max_seconds": 2}))
    with pytest.raises(VoiceError, match=r"lasts 0\.25 s; Tester needs at least 0\.5 s") as short:
        engine.convert(signals.silence(0.25), 16_000, AUTO)
    with pytest.raises(VoiceError, match=r"lasts 3\.00 s; Tester converts at most 2 s") as long:
        engine.convert(signals.silence(3.0), 16_000, AUTO)
    assert (short.value.code, long.value.code) == (ErrorCode.TOO_SHORT, ErrorCode.TOO_LONG)


@pytest.mark.parametrize(
    ("sound", "rate", "found"),
    [
        (np.zeros((2, 100), np.float32), 16_000, r"float32 \[2, 100\]"),
        (np.zeros(100, np.float64), 16_000, r"float64 \[100\]"),
        (np.zeros(100, np.float32), 0, "0 Hz"),
        (np.zeros(100, np.float32), 1_000_000, "1000000 Hz"),
    ],
)
def test_anything_but_mono_audio_is_a_programming_error(
    engine: Engine, sound: NDArray[np.float32], rate: int, found: str
) -> None:
    with pytest.raises(ValueError, match=found):
        engine.convert(sound, rate, AUTO)


def test_a_waveform_character_refuses_a_pitch_shift(waveform: Engine) -> None:
    with pytest.raises(VoiceError, match="Tester speaks at its own pitch"):
        waveform.convert(sentence(), 16_000, ConversionOptions(pitch_shift=3.0))


def test_a_waveform_graph_of_another_shape_and_rate_is_aligned_with_the_recording(
    tmp_path: Path,
) -> None:
    changes = {
        "settings": {"input": "audio", "output": "converted", "input_sample_rate": 48_000},
        "sample_rate": 24_000,
    }
    engine = build(write_waveform_bundle(tmp_path, small_graphs.half_rate_graph(), **changes))
    sound = sentence()
    converted = engine.convert(sound, 16_000, AUTO)
    reference = np.interp(np.arange(len(converted)) * 16 / 24, np.arange(len(sound)), sound)
    assert np.corrcoef(converted[1_000:-1_000], reference[1_000:-1_000])[0, 1] > 0.95


class Notes:
    """Records the stages that a conversion enters."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.stages.append(name)
        yield


def test_a_conversion_reports_its_stages(engine: Engine) -> None:
    notes = Notes()
    engine.convert(sentence(), 16_000, AUTO, notes)
    assert list(dict.fromkeys(notes.stages)) == ["resample", "f0", "network", "post"]


def test_a_graph_with_wrong_output_is_refused_when_the_engine_is_built(
    tmp_path: Path,
) -> None:
    graph = small_graphs.harmonic_graph()
    for initializer in graph.initializer:
        if initializer.name == "hop":
            initializer.raw_data = np.array([480]).tobytes()
    bundle = write_bundle(tmp_path, small_graphs.content(graph))
    with pytest.raises(BundleError, match=r"output 'audio': expected .*\[1, 2160\].*\[1, 1920\]"):
        build(bundle)


def test_a_graph_with_output_of_the_wrong_length_is_refused_when_the_engine_is_built(
    tmp_path: Path,
) -> None:
    bundle = write_waveform_bundle(tmp_path, small_graphs.half_rate_graph())
    with pytest.raises(BundleError, match=r"expected about 24000 samples for 1 s .* found 12000"):
        build(bundle)
