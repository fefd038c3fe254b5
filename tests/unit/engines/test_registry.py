from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.speech.engines.interface import ConversionOptions, Engine
from shared.speech.engines.registry import ENGINES, build_text_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.voices.voice import ErrorCode, VoiceError
from tests.support.engine_contract import EngineContract, words
from tests.unit.graphs import small_graphs
from tests.unit.graphs.bundles import build, manifest, write_bundle, write_waveform_bundle
from tests.unit.signal import signals

AUTO = ConversionOptions()


@pytest.fixture(scope="module")
def harmonic(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    graph = small_graphs.content(small_graphs.harmonic_graph(noise=0.003))
    return build(write_bundle(tmp_path_factory.mktemp("harmonic"), graph))


@pytest.fixture(scope="module")
def waveform(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return build(
        write_waveform_bundle(tmp_path_factory.mktemp("waveform"), small_graphs.gain_graph(0.5))
    )


class TestHarmonic(EngineContract):
    @pytest.fixture
    def engine(self, harmonic: Engine) -> Engine:
        return harmonic


class TestWaveform(EngineContract):
    has_noise = False

    @pytest.fixture
    def engine(self, waveform: Engine) -> Engine:
        return waveform


def test_auto_speaks_at_the_characters_pitch_and_semitones_at_the_speakers(
    harmonic: Engine,
) -> None:
    sound = signals.voice(signals.glide(200, 200, 1.5))
    auto = harmonic.convert(sound, 16_000, AUTO)
    assert spectral_peak(auto) == pytest.approx(330, rel=0.01)
    higher = harmonic.convert(sound, 16_000, ConversionOptions(pitch_shift=7.0))
    assert spectral_peak(higher) == pytest.approx(200 * 2 ** (7 / 12), rel=0.01)


def test_a_recording_in_pieces_is_joined_without_seams(tmp_path: Path) -> None:
    # At this frequency no number of whole frames is a number of whole cycles.
    pitch = {**manifest()["pitch"], "median_hz": 333.7}
    pure = build(write_bundle(tmp_path, pitch=pitch))
    sound = signals.voice(signals.glide(150, 150, 45.0))
    converted = pure.convert(sound, 16_000, AUTO)[12_000:-12_000].astype(np.float64)
    phase = 2 * np.pi * np.arange(len(converted)) * spectral_peak(converted) / 24_000
    rotated = converted * np.exp(-1j * phase)
    drift = np.unwrap(np.angle(np.convolve(rotated, np.ones(720) / 720, "valid")[::240]))
    assert np.max(np.abs(np.diff(drift))) < 0.05, "the sine jumps somewhere"
    loudness = np.abs(np.convolve(rotated, np.ones(720) / 720, "valid")[::240])
    assert np.ptp(loudness) / np.median(loudness) < 0.15, "its loudness jumps somewhere"


def spectral_peak(sound: NDArray[np.floating]) -> float:
    """The strongest frequency of a sound at 24 kHz, in Hz, between the bins of its spectrum."""
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    top = int(np.argmax(spectrum))
    left, middle, right = np.log(spectrum[top - 1 : top + 2])
    shift = 0.5 * (left - right) / (left - 2 * middle + right)
    return float((top + shift) * 24_000 / len(sound))


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


def test_a_recording_or_wish_beyond_the_characters_limits_is_refused(
    tmp_path: Path, waveform: Engine
) -> None:
    engine = build(write_bundle(tmp_path, limits={"min_seconds": 0.5, "max_seconds": 2}))
    with pytest.raises(VoiceError, match=r"lasts 0\.25 s; Tester needs at least 0\.5 s") as short:
        engine.convert(signals.silence(0.25), 16_000, AUTO)
    with pytest.raises(VoiceError, match=r"lasts 3\.00 s; Tester converts at most 2 s") as long:
        engine.convert(signals.silence(3.0), 16_000, AUTO)
    assert (short.value.code, long.value.code) == (ErrorCode.TOO_SHORT, ErrorCode.TOO_LONG)
    with pytest.raises(VoiceError, match="Tester speaks at its own pitch"):
        waveform.convert(words(), 16_000, ConversionOptions(pitch_shift=3.0))


def test_a_waveform_graph_of_another_shape_and_rate_is_aligned_with_the_recording(
    tmp_path: Path,
) -> None:
    changes = {
        "settings": {"input": "audio", "output": "converted", "input_sample_rate": 48_000},
        "sample_rate": 24_000,
    }
    engine = build(write_waveform_bundle(tmp_path, small_graphs.half_rate_graph(), **changes))
    sound = words()
    converted = engine.convert(sound, 16_000, AUTO)
    reference = np.interp(np.arange(len(converted)) * 16 / 24, np.arange(len(sound)), sound)
    assert np.corrcoef(converted[1_000:-1_000], reference[1_000:-1_000])[0, 1] > 0.95


def test_a_graph_with_output_of_the_wrong_length_is_refused_when_the_engine_is_built(
    tmp_path: Path,
) -> None:
    for engine in ("harmonic", "waveform"):
        (tmp_path / engine).mkdir()
    graph = small_graphs.harmonic_graph()
    (hop,) = (each for each in graph.initializer if each.name == "hop")
    hop.raw_data = np.array([480]).tobytes()
    harmonic = write_bundle(tmp_path / "harmonic", small_graphs.content(graph))
    waveform = write_waveform_bundle(tmp_path / "waveform", small_graphs.half_rate_graph())

    with pytest.raises(BundleError, match=r"output 'audio': expected .*\[1, 2160\].*\[1, 1920\]"):
        build(harmonic)
    with pytest.raises(BundleError, match=r"expected about 24000 samples for 1 s .* found 12000"):
        build(waveform)


def test_a_character_that_takes_no_text_has_no_engine_for_it(
    tmp_path: Path, waveform: Engine
) -> None:
    bundle = write_waveform_bundle(tmp_path, small_graphs.gain_graph(0.5), takes="speech")

    character = load_character(bundle, ENGINES)

    assert build_text_engine(character, waveform, SessionSettings()) is None
