from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import CharacterManifest, parse_manifest
from shared.speech.engines.interface import ConversionOptions, EarlyPieces
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.engines.rvc import RvcEngine
from shared.speech.engines.rvc_networks import RvcNetworks, RvcOptions
from shared.speech.engines.rvc_signal import Retrieval
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.signal.samples import resample
from shared.voices.voice import VoiceError
from tests.support.engine_contract import EngineContract
from tests.unit.engines import rvc_golden
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
from tests.unit.graphs.bundles import manifest
from tests.unit.signal import signals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from shared.speech.engines.interface import Engine


if TYPE_CHECKING:
    Array = NDArray[np.float32]


AUTO = ConversionOptions()


def character(**changes: Any) -> CharacterManifest:

    said = manifest(**{"engine": "rvc", "sample_rate": RATE, "pitch": None, **changes})
    return parse_manifest(json.dumps(said).encode(), Path("tester"))


def engine_of(voice: SineVoice, options: RvcOptions | None = None, **changes: Any) -> RvcEngine:
    return RvcEngine(character(**changes), RvcNetworks(voice, voice, None, options or RvcOptions()))


def word(hertz: float = 120.0, seconds: float = 0.6) -> Array:
    return signals.voice(signals.glide(hertz, hertz, seconds))


def sentence(words: int = 3) -> Array:
    parts = [part for _ in range(words) for part in (word(), signals.silence(0.4))]
    return np.concatenate(parts)


def hertz_of(sound: Array) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound)), 1 << 18))
    return float(np.argmax(spectrum) * RATE / (1 << 18))


def test_the_voice_speaks_at_the_pitch_of_the_speaker() -> None:
    converted = engine_of(SineVoice()).convert(word(), signals.RATE, AUTO)

    assert hertz_of(converted) == pytest.approx(120, abs=2)


def test_a_conversion_may_ask_for_semitones() -> None:
    converted = engine_of(SineVoice()).convert(
        word(), signals.RATE, ConversionOptions(pitch_shift=7)
    )

    assert hertz_of(converted) == pytest.approx(120 * 2 ** (7 / 12), abs=3)


def test_the_policy_auto_moves_the_speakers_median_to_the_characters() -> None:
    pitch = {"policy": "auto", "median_hz": 220.0, "log_std": 0.2, "low_hz": 100, "high_hz": 400}

    converted = engine_of(SineVoice(), pitch=pitch).convert(word(), signals.RATE, AUTO)

    assert hertz_of(converted) == pytest.approx(220, abs=3)


def test_silence_stays_silent_in_a_conversion() -> None:
    recording = np.concatenate([signals.silence(0.5), word(), signals.silence(1.5), word()])

    converted = engine_of(SineVoice()).convert(recording, signals.RATE, AUTO)

    def seconds(begin: float, end: float) -> Array:
        return converted[round(begin * RATE) : round(end * RATE)]

    assert np.abs(seconds(0, 0.3)).max() == 0
    assert np.abs(seconds(1.5, 2.4)).max() == 0
    assert np.abs(seconds(0.7, 1.0)).max() > 0.1
    assert np.abs(seconds(2.8, 3.1)).max() > 0.1


def test_the_voice_begins_when_the_speaker_does() -> None:
    recording = np.concatenate([signals.silence(0.8), word(), signals.silence(0.8), word(200)])

    converted = engine_of(SineVoice()).convert(recording, signals.RATE, AUTO)

    spoken = np.flatnonzero(np.abs(converted) > 0.02) / RATE
    assert spoken[0] == pytest.approx(0.8, abs=0.03)
    pause = np.argmax(np.diff(spoken))
    assert spoken[pause] == pytest.approx(1.4, abs=0.1)
    assert spoken[pause + 1] == pytest.approx(2.2, abs=0.03)


def test_a_silent_recording_is_not_even_converted() -> None:
    voice = SineVoice()

    converted = engine_of(voice).convert(signals.silence(2), signals.RATE, AUTO)

    assert not converted.any()
    assert voice.waves == []


def test_a_long_pause_is_not_converted() -> None:
    voice = SineVoice()
    recording = np.concatenate([word(), signals.silence(5), word()])

    engine_of(voice).convert(recording, signals.RATE, AUTO)

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


class Quiet:
    """A content encoder whose features are all 0."""

    def encode(self, wave: Array) -> Array:
        return np.zeros(((len(wave) - 400) // 320 + 1, 768), np.float32)


def golden_voice() -> RvcEngine:
    """The reference voice, with features that say nothing."""
    synthesizer = rvc_golden.synthesizer("v2-f0-40k.pth")
    return RvcEngine(
        character(sample_rate=40_000), RvcNetworks(Quiet(), synthesizer, None, RvcOptions())
    )


class TestRvc(EngineContract):
    @pytest.fixture
    def engine(self) -> RvcEngine:
        return engine_of(SineVoice(), RvcOptions(loudness_mix=1))

    has_noise = False


def test_the_noise_of_another_seed_changes_the_samples() -> None:
    engine = golden_voice()
    first, again, other = (
        engine.convert(sentence(1), signals.RATE, ConversionOptions(seed=seed))
        for seed in (5, 5, 6)
    )

    assert first.tolist() == again.tolist()
    assert not np.allclose(first, other, atol=1e-4)


def phrases(count: int = 3) -> Array:
    parts = []
    for index in range(count):
        parts += [word(110 + 15 * index, 0.5 + 0.3 * index), signals.silence(0.9)]
    recording = np.concatenate(parts)[: -len(signals.silence(0.5))]
    return recording + signals.level(signals.hiss(10), -60)[: len(recording)]


def seconds_of(recording: Array, rate: int, seconds: float) -> Array:
    return recording[: round(seconds * rate)]


AUTO_PITCH = {"policy": "auto", "median_hz": 220.0, "log_std": 0.2, "low_hz": 80, "high_hz": 600}


@pytest.mark.parametrize("unvoiced", ["zero", "fill"])
@pytest.mark.parametrize("pitch", [None, AUTO_PITCH])
@pytest.mark.parametrize("rate", [16_000, 48_000])
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
        engine.convert_ahead(seconds_of(recording, rate, seconds), rate, options)
    made_ahead = len(voice.waves) - all_pieces
    converted = engine.convert(recording, rate, options)

    assert (all_pieces, made_ahead, len(voice.waves)) == (3, 2, all_pieces + 3)
    np.testing.assert_array_equal(converted, whole)


def test_pieces_of_another_recording_or_seed_are_not_taken() -> None:
    engine = engine_of(SineVoice())
    ahead = EarlyPieces()
    engine.convert_ahead(phrases(), signals.RATE, ConversionOptions(seed=7, ahead=ahead))
    another = phrases() * np.float32(0.5)

    for recording, seed in ((another, 7), (phrases(), 8)):
        converted = engine.convert(recording, signals.RATE, ConversionOptions(None, seed, ahead))
        alone = engine.convert(recording, signals.RATE, ConversionOptions(seed=seed))
        np.testing.assert_array_equal(converted, alone)


def test_a_phrase_that_may_go_on_is_not_converted_ahead() -> None:
    voice = SineVoice()

    engine_of(voice).convert_ahead(
        np.concatenate([word(), signals.silence(0.3)]),
        signals.RATE,
        ConversionOptions(ahead=EarlyPieces()),
    )

    assert voice.waves == []


@pytest.mark.parametrize("recording", [signals.silence(2), np.full(40_000, 0.1, np.float32)])
def test_nothing_is_converted_ahead_where_nobody_speaks(recording: Array) -> None:
    voice = SineVoice()

    engine_of(voice).convert_ahead(recording, signals.RATE, ConversionOptions(ahead=EarlyPieces()))

    assert voice.waves == []


def test_what_needs_the_whole_recording_is_not_converted_ahead() -> None:
    voice, options = SineVoice(), ConversionOptions(ahead=EarlyPieces())
    parts = RvcNetworks(voice, voice, None, RvcOptions())
    with_model = RvcEngine(character(), parts, Fixed(300, hears_voicing=True))
    silent_voice = SineVoice(harmonics=0)

    with_model.convert_ahead(phrases(), signals.RATE, options)
    steered = ConversionOptions(pitch_shift=3, ahead=EarlyPieces())
    engine_of(silent_voice).convert_ahead(phrases(), signals.RATE, steered)

    assert voice.waves == silent_voice.waves == []


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


def test_a_mix_of_0_follows_the_recordings_loudness_where_a_mix_of_1_does_not() -> None:
    recording = np.concatenate([word(seconds=2.0), word(seconds=2.0) * np.float32(0.2)])

    def ratio(mix: float) -> float:
        options = RvcOptions(loudness_mix=mix)
        converted = engine_of(SineVoice(), options).convert(recording, signals.RATE, AUTO)
        loud, soft = converted[RATE // 2 : RATE], converted[3 * RATE : 3 * RATE + RATE // 2]
        return float(np.sqrt(np.mean(loud**2) / np.mean(soft**2)))

    assert ratio(1.0) == pytest.approx(1.0, rel=0.1)
    assert ratio(0.0) == pytest.approx(5.0, rel=0.1)


class Fixed:
    """A pitch model that hears the same everywhere."""

    def __init__(self, hertz: float, *, hears_voicing: bool) -> None:
        self._hertz = hertz
        self.hears_voicing = hears_voicing

    def track(self, wave: Array) -> Array:
        return np.full(len(wave) // 160 + 1, self._hertz, np.float32)


@pytest.mark.parametrize(("hears_voicing", "lowest"), [(True, 300), (False, 0)])
def test_a_pitch_model_takes_the_place_of_our_tracker(
    *, hears_voicing: bool, lowest: float
) -> None:
    voice = SineVoice()
    recording = np.concatenate([word(), signals.hiss(0.2), word()])
    model = Fixed(300, hears_voicing=hears_voicing)

    RvcEngine(
        character(), RvcNetworks(voice, voice, None, RvcOptions()), pitch_model=model
    ).convert(recording, signals.RATE, AUTO)

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
    options = RvcOptions(index_rate=0.5, protect=0.2)
    recording = np.concatenate([word(), signals.hiss(0.2), word()])

    RvcEngine(character(), RvcNetworks(voice, voice, retrieval, options)).convert(
        recording, signals.RATE, AUTO
    )

    voiced = contour_of(voice) > 0
    assert voice.features[voiced] == pytest.approx(0.5)
    assert voice.features[~voiced] == pytest.approx(0.1)


def built(folder: Path, contents: Mapping[str, bytes] | None = None, **changes: Any) -> Engine:
    bundle = write_voice(folder, contents, **changes)
    return build_engine(load_character(bundle, ENGINES), SessionSettings())


def refusal(folder: Path, contents: Mapping[str, bytes] | None = None, **changes: Any) -> str:
    with pytest.raises(BundleError) as error:
        built(folder, contents, **changes)
    return str(error.value)


def speech() -> NDArray[np.float32]:
    return signals.voice(signals.glide(120, 140, 0.8))


def difference(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(np.abs(one - other).max())


def test_a_bundle_converts(tmp_path: Path) -> None:
    converted = built(tmp_path).convert(speech(), signals.RATE, AUTO)

    assert converted.shape == (round(0.8 * RATE),)
    assert signals.rms(converted) > 0.01


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("is_transposed", [False, True], ids=["time first", "channels first"])
def test_a_content_encoder_gives_the_same_output_in_all_its_forms(
    tmp_path: Path, rank: int, *, is_transposed: bool
) -> None:
    other = {"content": content_graph(rank=rank, is_transposed=is_transposed)}

    expected = built(tmp_path / "one").convert(speech(), signals.RATE, AUTO)

    converted = built(tmp_path / "other", other).convert(speech(), signals.RATE, AUTO)
    assert difference(converted, expected) < 1e-5


def ones(count: int, width: int, kind: type[np.generic] = np.float16, **more: Any) -> bytes:
    return retrieval_graph(np.ones((count, width), kind), **more)


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param(
            {"content": content_graph(outputs=3), "synthesizer": synthesizer_graph(2 * CHANNELS)},
            id="the second of three outputs",
        ),
        pytest.param({"synthesizer": synthesizer_graph(takes_pitch=False)}, id="without pitch"),
        pytest.param({"synthesizer": synthesizer_graph(harmonics=9)}, id="nine harmonics"),
        pytest.param({"retrieval": ones(9, CHANNELS, cell_type=np.int32)}, id="cells of 32 bits"),
    ],
)
def test_other_forms_of_the_graphs_convert(tmp_path: Path, contents: Mapping[str, bytes]) -> None:
    assert built(tmp_path, contents).convert(speech(), signals.RATE, AUTO).any()


@pytest.mark.parametrize(
    ("contents", "changes", "expected"),
    [
        pytest.param(
            {"content": content_graph(outputs=2)},
            {"settings": {"content_output": "features1"}},
            "content.onnx: expected features float32 [1, 24, 6] for 8000 samples at 16 kHz, as the"
            " synthesizer takes them, found 'features1' [1, 24, 12].",
            id="a named output of another width",
        ),
        pytest.param(
            {},
            {"settings": {"content_output": "units9"}},
            "content.onnx: expected the output 'units9' that settings.content_output names, found"
            " only 'features0'.",
            id="a named output that does not exist",
        ),
        pytest.param(
            {"synthesizer": synthesizer_graph(5)},
            {},
            "content.onnx: expected features float32 [1, 24, 5]",
            id="an encoder of another width",
        ),
        pytest.param(
            {"content": synthesizer_graph(takes_pitch=False)},
            {},
            "content.onnx: expected a content encoder with one input",
            id="an encoder with a second input",
        ),
        pytest.param(
            {"synthesizer": synthesizer_graph(takes_pitch=False, hop=400)},
            {},
            "synthesizer.onnx: output 'audio': expected float32 [1, 1, 3840] for 12 frames at"
            " 32000 Hz, found [1, 1, 4800].",
            id="a synthesizer of another rate",
        ),
        pytest.param(
            {"synthesizer": synthesizer_graph(hop=400)},
            {},
            "synthesizer.onnx: expected a graph that takes 'phone' [1, 12, 6]",
            id="a synthesizer with more noise",
        ),
        pytest.param(
            {"synthesizer": small_graphs.content(small_graphs.harmonic_graph())},
            {},
            "synthesizer.onnx: input 'phone': expected float32 [1, frames,",
            id="a synthesizer without a length",
        ),
        pytest.param(
            {},
            {"sample_rate": 22_055},
            "character.json: field 'sample_rate': expected a multiple of 100, found 22055.",
            id="no whole frames",
        ),
        pytest.param(
            {},
            {"settings": {"index_ratio": 0.5}},
            "character.json: field 'settings.index_ratio': expected only speaker, index_rate,",
            id="an unknown setting",
        ),
        pytest.param(
            {"retrieval": ones(9, CHANNELS + 1)},
            {},
            "retrieval.onnx: output 'vectors': expected 6 values each, as the content encoder"
            " gives, found 7.",
            id="vectors of another width",
        ),
        pytest.param(
            {"retrieval": ones(3, CHANNELS, cells=[0, 1, 0])},
            {},
            "retrieval.onnx: expected vectors for the retrieval, found: cells: expected 0 to 0,"
            " found others.",
            id="cells that do not fit",
        ),
        pytest.param(
            {"retrieval": ones(3, CHANNELS, np.int64)},
            {},
            "retrieval.onnx: output 'vectors': expected float32 [any, any], found int64 [3, 6].",
            id="vectors of another type",
        ),
    ],
)
def test_a_bundle_whose_parts_do_not_fit_is_refused(
    tmp_path: Path, contents: Mapping[str, bytes], changes: dict[str, Any], expected: str
) -> None:
    message = refusal(tmp_path, contents, **changes)

    assert message == expected if expected.endswith(".") else message.startswith(expected)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("speaker", -1, "a whole number from 0 to 9999"),
        ("speaker", 1.5, "a whole number from 0 to 9999"),
        ("speaker", True, "a whole number from 0 to 9999"),
        ("index_rate", 1.1, "a number from 0 to 1"),
        ("index_rate", "all", "a number from 0 to 1"),
        ("protect", 0.6, "a number from 0 to 0.5"),
        ("loudness_mix", True, "a number from 0 to 1"),
        ("search", "nearby", '"exact" or "cell"'),
        ("unvoiced", "keep", '"zero" or "fill"'),
        ("content_output", "", "the name of an output"),
    ],
)
def test_a_wrong_setting_is_refused(
    tmp_path: Path, setting: str, value: Any, expected: str
) -> None:
    assert refusal(tmp_path, settings={setting: value}) == (
        f"character.json: field 'settings.{setting}': expected {expected}, found {value!r}."
    )


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_vectors_lead_the_features(tmp_path: Path, kind: type[np.floating]) -> None:
    vectors = np.full((9, CHANNELS), 1_000, kind)

    without = built(tmp_path / "without").convert(speech(), signals.RATE, AUTO)
    led = built(tmp_path / "with", {"retrieval": retrieval_graph(vectors)})

    assert difference(led.convert(speech(), signals.RATE, AUTO), without) > 1e-3


def test_an_index_rate_of_0_leaves_the_vectors_out(tmp_path: Path) -> None:
    vectors = np.full((9, CHANNELS), 3, np.float16)

    without = built(tmp_path / "without").convert(speech(), signals.RATE, AUTO)
    led = built(
        tmp_path / "with", {"retrieval": retrieval_graph(vectors)}, settings={"index_rate": 0}
    )

    assert difference(led.convert(speech(), signals.RATE, AUTO), without) == 0


def test_two_characters_share_an_encoder_as_long_as_one_of_them_lives(tmp_path: Path) -> None:
    settings = SessionSettings()
    counted: list[str] = []

    class Counting(type(settings.sharing)):  # type: ignore[misc] # a class is known only here
        def get(self, key: str, load: Any) -> Any:
            def counting() -> Any:
                counted.append(key)
                return load()

            return super().get(key, counting)

    settings = SessionSettings(sharing=Counting())
    bundles = [
        write_voice(tmp_path / "one"),
        write_voice(tmp_path / "other", settings={"speaker": 1}),
        write_voice(tmp_path / "third", {"content": content_graph(rank=2)}),
    ]

    engines = [build_engine(load_character(bundle, ENGINES), settings) for bundle in bundles]

    digests = [
        json.loads((bundle / "character.json").read_text())["graphs"]["content"]["sha256"]
        for bundle in bundles
    ]
    assert digests[0] == digests[1] != digests[2]
    assert [key for key in counted if digests[0] in key] == [f"session {digests[0]} 1 cpu"]
    assert [key for key in counted if digests[2] in key] == [f"session {digests[2]} 1 cpu"]
    assert len(engines) == 3
