import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import parse_manifest
from shared.speech.engines.interface import ConversionOptions, EarlyPieces, Engine
from shared.speech.engines.rvc import PitchTracker, RvcEngine
from shared.speech.engines.rvc_networks import RvcNetworks, RvcOptions
from shared.speech.engines.rvc_signal import Retrieval
from shared.speech.signal.samples import resample
from shared.voices.voice import VoiceError
from tests.support.engine_contract import EngineContract
from tests.unit.engines.rvc_voices import (
    CHANNELS,
    RATE,
    SineVoice,
    content_graph,
    retrieval_graph,
    synthesizer_graph,
    write_voice,
)
from tests.unit.graphs import small_graphs
from tests.unit.graphs.bundles import build, manifest
from tests.unit.signal import signals

Array = NDArray[np.float32]

AUTO = ConversionOptions()


def engine_of(
    voice: SineVoice,
    options: RvcOptions | None = None,
    retrieval: Retrieval | None = None,
    model: PitchTracker | None = None,
    **changes: Any,
) -> RvcEngine:
    said = manifest(**{"engine": "rvc", "sample_rate": RATE, "pitch": None, **changes})
    networks = RvcNetworks(voice, voice, retrieval, options or RvcOptions())
    return RvcEngine(parse_manifest(json.dumps(said).encode(), Path("tester")), networks, model)


def word(hertz: float = 120.0, seconds: float = 0.6) -> Array:
    return signals.voice(signals.glide(hertz, hertz, seconds))


def hertz_of(sound: Array) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound)), 1 << 18))
    return float(np.argmax(spectrum) * RATE / (1 << 18))


AUTO_PITCH = {"policy": "auto", "median_hz": 220.0, "log_std": 0.2, "low_hz": 80, "high_hz": 600}


@pytest.mark.parametrize(
    ("pitch", "semitones", "expected"),
    [(None, None, 120), (None, 7, 120 * 2 ** (7 / 12)), (AUTO_PITCH, None, 220)],
)
def test_the_voice_speaks_at_the_speakers_pitch_or_as_high_as_is_asked(
    pitch: Any, semitones: float | None, expected: float
) -> None:
    options = ConversionOptions(pitch_shift=semitones)

    converted = engine_of(SineVoice(), pitch=pitch).convert(word(), signals.RATE, options)

    assert hertz_of(converted) == pytest.approx(expected, abs=3)


def test_the_voice_speaks_when_the_speaker_does_and_pauses_are_silent_and_not_converted() -> None:
    voice = SineVoice()
    recording = np.concatenate([signals.silence(0.8), word(), signals.silence(5), word(200)])

    converted = engine_of(voice).convert(recording, signals.RATE, AUTO)

    spoken = np.flatnonzero(np.abs(converted) > 0.02) / RATE
    assert spoken[0] == pytest.approx(0.8, abs=0.03)
    pause = np.argmax(np.diff(spoken))
    assert spoken[pause] == pytest.approx(1.4, abs=0.1)
    assert spoken[pause + 1] == pytest.approx(6.4, abs=0.03)
    assert not converted[: RATE // 2].any()
    assert not converted[2 * RATE : 6 * RATE].any()
    assert len(voice.waves) == 2
    assert sum(len(wave) for wave in voice.waves) < 3.5 * 16_000


def test_a_recording_in_pieces_joins_without_a_click() -> None:
    voice = SineVoice()
    recording = signals.voice(signals.glide(150, 150, 25.0))

    converted = engine_of(voice, RvcOptions(loudness_mix=1)).convert(recording, signals.RATE, AUTO)

    assert len(voice.waves) >= 3
    middle = converted[RATE:-RATE]
    steepest = 2 * np.pi * 150 / RATE * np.abs(middle).max()
    assert np.abs(np.diff(middle)).max() < 1.3 * steepest


class TestRvc(EngineContract):
    @pytest.fixture
    def engine(self) -> RvcEngine:
        return engine_of(SineVoice(), RvcOptions(loudness_mix=1))

    has_noise = False


def phrases(count: int = 3) -> Array:
    parts = []
    for index in range(count):
        parts += [word(110 + 15 * index, 0.5 + 0.3 * index), signals.silence(0.9)]
    recording = np.concatenate(parts)[: -len(signals.silence(0.5))]
    return recording + signals.level(signals.hiss(10), -60)[: len(recording)]


@pytest.mark.parametrize(
    ("rate", "pitch", "unvoiced"), [(16_000, None, "zero"), (48_000, AUTO_PITCH, "fill")]
)
def test_what_is_converted_ahead_changes_no_sample_and_is_not_converted_again(
    rate: int, pitch: Any, unvoiced: Any
) -> None:
    recording = resample(phrases(), signals.RATE, rate)
    voice = SineVoice()
    engine = engine_of(voice, RvcOptions(unvoiced=unvoiced), pitch=pitch)
    whole = engine.convert(recording, rate, ConversionOptions(seed=7))
    all_pieces = len(voice.waves)

    options = ConversionOptions(seed=7, ahead=EarlyPieces())
    for seconds in (0.4, 1.4, 2.0, 3.1):
        engine.convert_ahead(recording[: round(seconds * rate)], rate, options)
    made_ahead = len(voice.waves) - all_pieces
    converted = engine.convert(recording, rate, options)

    assert (all_pieces, made_ahead, len(voice.waves)) == (3, 2, all_pieces + 3)
    np.testing.assert_array_equal(converted, whole)


def test_pieces_of_another_recording_or_seed_are_not_taken() -> None:
    engine = engine_of(SineVoice())
    ahead = EarlyPieces()
    engine.convert_ahead(phrases(), signals.RATE, ConversionOptions(seed=7, ahead=ahead))

    for recording, seed in ((phrases() * np.float32(0.5), 7), (phrases(), 8)):
        converted = engine.convert(recording, signals.RATE, ConversionOptions(None, seed, ahead))
        alone = engine.convert(recording, signals.RATE, ConversionOptions(seed=seed))
        np.testing.assert_array_equal(converted, alone)


@pytest.mark.parametrize(
    ("recording", "harmonics", "pitch_shift"),
    [
        pytest.param(np.concatenate([word(), signals.silence(0.3)]), 1, None, id="may go on"),
        pytest.param(signals.silence(2), 1, None, id="silence"),
        pytest.param(np.full(40_000, 0.1, np.float32), 1, None, id="an offset"),
        pytest.param(phrases(), 0, 3, id="will be refused"),
    ],
)
def test_only_a_phrase_that_is_complete_is_converted_ahead(
    recording: Array, harmonics: int, pitch_shift: float | None
) -> None:
    voice = SineVoice(harmonics=harmonics)
    options = ConversionOptions(pitch_shift=pitch_shift, ahead=EarlyPieces())

    engine_of(voice).convert_ahead(recording, signals.RATE, options)

    assert voice.waves == []


def test_unvoiced_frames_are_passed_as_0_or_filled() -> None:
    recording = np.concatenate([word(), signals.hiss(0.2), word()])
    zero, fill = SineVoice(), SineVoice()

    engine_of(zero).convert(recording, signals.RATE, AUTO)
    engine_of(fill, RvcOptions(unvoiced="fill")).convert(recording, signals.RATE, AUTO)

    assert contour_of(zero).min() == 0
    assert contour_of(fill).min() > 100


def contour_of(voice: SineVoice) -> Array:
    told = voice.contours[0]
    assert told is not None
    return told.hertz


def test_a_voice_without_pitch_converts_and_cannot_be_steered() -> None:
    engine = engine_of(SineVoice(harmonics=0))

    assert hertz_of(engine.convert(word(), signals.RATE, AUTO)) == pytest.approx(200, abs=3)
    with pytest.raises(VoiceError, match="leave pitch_shift at auto"):
        engine.convert(word(), signals.RATE, ConversionOptions(pitch_shift=1.0))


class Fixed:
    """A pitch model that hears the same everywhere."""

    def __init__(self, hertz: float, *, hears_voicing: bool) -> None:
        self._hertz = hertz
        self.hears_voicing = hears_voicing

    def track(self, wave: Array) -> Array:
        return np.full(len(wave) // 160 + 1, self._hertz, np.float32)


@pytest.mark.parametrize(("hears_voicing", "lowest"), [(True, 300), (False, 0)])
def test_a_pitch_model_takes_the_place_of_our_tracker_and_needs_the_whole_recording(
    *, hears_voicing: bool, lowest: float
) -> None:
    voice = SineVoice()
    recording = np.concatenate([word(), signals.hiss(0.2), word()])
    engine = engine_of(voice, model=Fixed(300, hears_voicing=hears_voicing))

    engine.convert_ahead(phrases(), signals.RATE, ConversionOptions(ahead=EarlyPieces()))
    assert voice.waves == []
    engine.convert(recording, signals.RATE, AUTO)

    assert contour_of(voice).max() == 300
    assert contour_of(voice).min() == lowest


def test_features_are_led_towards_the_voices_training() -> None:
    class Telling(SineVoice):
        def speak(self, features: Array, *rest: Any) -> Array:
            self.features = features
            return super().speak(features, *rest)

    voice = Telling()
    vectors = np.ones((4, 6), np.float32)
    retrieval = Retrieval(vectors, vectors[:1], np.zeros(4, np.int64))
    recording = np.concatenate([word(), signals.hiss(0.2), word()])

    engine = engine_of(voice, RvcOptions(index_rate=0.5, protect=0.2), retrieval)
    engine.convert(recording, signals.RATE, AUTO)

    voiced = contour_of(voice) > 0
    assert voice.features[voiced] == pytest.approx(0.5)
    assert voice.features[~voiced] == pytest.approx(0.1)


def built(folder: Path, contents: Mapping[str, bytes] | None = None, **changes: Any) -> Engine:
    return build(write_voice(folder, contents, **changes))


def spoken(folder: Path, contents: Mapping[str, bytes] | None = None, **changes: Any) -> Array:
    sound = signals.voice(signals.glide(120, 140, 0.8))
    return built(folder, contents, **changes).convert(sound, signals.RATE, AUTO)


def refusal(folder: Path, contents: Mapping[str, bytes] | None = None, **changes: Any) -> str:
    with pytest.raises(BundleError) as error:
        built(folder, contents, **changes)
    return str(error.value)


def test_the_seed_of_a_bundles_conversion_decides_its_noise(tmp_path: Path) -> None:
    engine = built(tmp_path)

    first, again, other = (
        engine.convert(word(), signals.RATE, ConversionOptions(seed=seed)) for seed in (5, 5, 6)
    )

    assert first.tolist() == again.tolist()
    assert not np.allclose(first, other, atol=1e-4)


@pytest.mark.parametrize(("rank", "is_transposed"), [(2, False), (3, True)])
def test_a_content_encoder_gives_the_same_output_in_all_its_forms(
    tmp_path: Path, rank: int, *, is_transposed: bool
) -> None:
    other = {"content": content_graph(rank=rank, is_transposed=is_transposed)}

    assert spoken(tmp_path / "other", other) == pytest.approx(spoken(tmp_path / "one"), abs=1e-5)


ONES = np.ones((9, CHANNELS), np.float16)


@pytest.mark.parametrize(
    "contents",
    [
        # The synthesizer takes the second of three outputs.
        {"content": content_graph(outputs=3), "synthesizer": synthesizer_graph(2 * CHANNELS)},
        {"synthesizer": synthesizer_graph(takes_pitch=False)},
        {"synthesizer": synthesizer_graph(harmonics=9)},
        {"retrieval": retrieval_graph(ONES, cell_type=np.int32)},
    ],
)
def test_other_forms_of_the_graphs_convert(tmp_path: Path, contents: Mapping[str, bytes]) -> None:
    assert spoken(tmp_path, contents).any()


@pytest.mark.parametrize(
    ("role", "content", "expected"),
    [
        (
            "content",
            synthesizer_graph(takes_pitch=False),
            "expected a content encoder with one input",
        ),
        (
            "synthesizer",
            synthesizer_graph(takes_pitch=False, hop=400),
            "output 'audio': expected float32 [1, 1, 3840] for 12 frames at 32000 Hz, found [1, 1,",
        ),
        (
            "synthesizer",
            synthesizer_graph(hop=400),
            "expected a graph that takes 'phone' [1, 12, 6]",
        ),
        (
            "synthesizer",
            small_graphs.content(small_graphs.harmonic_graph()),
            "input 'phone': expected float32 [1, frames,",
        ),
        (
            "retrieval",
            retrieval_graph(np.ones((9, CHANNELS + 1), np.float16)),
            "output 'vectors': expected 6 values each, as the content encoder gives, found 7.",
        ),
        (
            "retrieval",
            retrieval_graph(ONES, [0] * 8 + [1]),
            "expected vectors for the retrieval, found: cells: expected 0 to 0, found others.",
        ),
        (
            "retrieval",
            retrieval_graph(np.ones((3, CHANNELS), np.int64)),
            "output 'vectors': expected float32 [any, any], found int64 [3, 6].",
        ),
    ],
)
def test_a_graph_that_does_not_fit_the_others_is_refused(
    tmp_path: Path, role: str, content: bytes, expected: str
) -> None:
    assert refusal(tmp_path, {role: content}).startswith(f"{role}.onnx: {expected}")


def test_an_output_that_the_manifest_names_must_be_there_and_fit(tmp_path: Path) -> None:
    two = {"content": content_graph(outputs=2)}

    assert refusal(tmp_path / "wide", two, settings={"content_output": "features1"}) == (
        "content.onnx: expected features float32 [1, 24, 6] for 8000 samples at 16 kHz, as the"
        " synthesizer takes them, found 'features1' [1, 24, 12]."
    )
    assert refusal(tmp_path / "none", settings={"content_output": "units9"}) == (
        "content.onnx: expected the output 'units9' that settings.content_output names, found"
        " only 'features0'."
    )


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("speaker", -1, "a whole number from 0 to 9999"),
        ("speaker", True, "a whole number from 0 to 9999"),
        ("index_rate", "all", "a number from 0 to 1"),
        ("protect", 0.6, "a number from 0 to 0.5"),
        ("search", "nearby", '"exact" or "cell"'),
        ("content_output", "", "the name of an output"),
        ("index_ratio", 0.5, "only speaker, index_rate,"),
    ],
)
def test_a_wrong_setting_is_refused(
    tmp_path: Path, setting: str, value: Any, expected: str
) -> None:
    message = refusal(tmp_path, settings={setting: value})

    assert message.startswith(f"character.json: field 'settings.{setting}': expected {expected}")
    assert message.endswith((f" found {value!r}.", f" found {setting!r}."))
    assert "a multiple of 100, found 22055." in refusal(tmp_path / "rate", sample_rate=22_055)
