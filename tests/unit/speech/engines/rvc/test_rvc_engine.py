from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.characters.manifest import CharacterManifest, parse_manifest
from shared.voices.voice import VoiceError
from speech.engines.interface.ahead import Ahead
from speech.engines.interface.engine import ConversionOptions
from speech.engines.rvc.engine import RvcEngine
from speech.engines.rvc.retrieval import Retrieval
from speech.engines.rvc.voice import RvcVoice, VoiceOptions
from speech.signal.samples import resample
from tests.unit.speech import signals
from tests.unit.speech.bundles import manifest
from tests.unit.speech.engines.rvc import golden
from tests.unit.speech.engines.rvc.voices import RATE, SineVoice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

AUTO = ConversionOptions()


def character(**changes: Any) -> CharacterManifest:

    said = manifest(**{"engine": "rvc", "sample_rate": RATE, "pitch": None, **changes})
    return parse_manifest(json.dumps(said).encode(), Path("tester"))


def engine_of(voice: SineVoice, options: VoiceOptions | None = None, **changes: Any) -> RvcEngine:
    return RvcEngine(character(**changes), RvcVoice(voice, voice, None, options or VoiceOptions()))


def word(hertz: float = 120.0, seconds: float = 0.6) -> Array:
    return signals.voice(signals.glide(hertz, hertz, seconds))


def sentence(words: int = 3) -> Array:
    parts = [part for _ in range(words) for part in (word(), signals.silence(0.4))]
    return np.concatenate(parts)


def hertz_of(sound: Array) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound)), 1 << 18))
    return float(np.argmax(spectrum) * RATE / (1 << 18))


@given(samples=st.integers(1, 40_000), rate=st.sampled_from([8_000, 16_000, 44_100, 48_000]))
@settings(deadline=None, max_examples=25)
def test_a_conversion_lasts_exactly_as_long_as_the_recording(samples: int, rate: int) -> None:
    recording = np.resize(sentence(), samples)

    converted = engine_of(SineVoice()).convert(recording, rate, AUTO)

    assert converted.shape == (int(np.floor(samples * RATE / rate + 0.5)),)
    assert converted.dtype == np.float32
    assert np.abs(converted).max() <= 0.99


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

    converted = engine_of(voice, VoiceOptions(loudness_mix=1)).convert(
        recording, signals.RATE, AUTO
    )

    assert len(voice.waves) >= 3
    middle = converted[RATE:-RATE]
    steepest = 2 * np.pi * 150 / RATE * np.abs(middle).max()
    assert np.abs(np.diff(middle)).max() < 1.3 * steepest


def test_the_same_seed_gives_the_same_samples_and_another_one_others() -> None:
    voice = golden_voice()

    first, again, other = (
        voice.convert(sentence(1), signals.RATE, ConversionOptions(seed=seed)) for seed in (5, 5, 6)
    )

    assert first.tolist() == again.tolist()
    assert not np.allclose(first, other, atol=1e-4)


def test_simultaneous_threads_get_the_same_result_as_one() -> None:
    engine = golden_voice()
    recordings = [sentence(1) * np.float32(1 - 0.2 * index) for index in range(3)]
    alone = [engine.convert(recording, signals.RATE, AUTO) for recording in recordings]

    with ThreadPoolExecutor(3) as threads:
        together = list(
            threads.map(lambda sound: engine.convert(sound, signals.RATE, AUTO), recordings)
        )

    for one, other in zip(alone, together, strict=True):
        assert one.tolist() == other.tolist()


class Quiet:
    """A content encoder whose features are all 0."""

    def encode(self, wave: Array) -> Array:
        return np.zeros(((len(wave) - 400) // 320 + 1, 768), np.float32)


def golden_voice() -> RvcEngine:
    """The reference voice, with features that say nothing."""
    synthesizer = golden.synthesizer("v2-f0-40k.pth")
    return RvcEngine(
        character(sample_rate=40_000), RvcVoice(Quiet(), synthesizer, None, VoiceOptions())
    )


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
    engine = engine_of(voice, VoiceOptions(unvoiced=unvoiced), pitch=pitch)
    whole = engine.convert(recording, rate, ConversionOptions(seed=7))
    all_pieces = len(voice.waves)

    options = ConversionOptions(seed=7, ahead=Ahead())
    for seconds in (0.4, 1.4, 2.0, 3.1):
        engine.convert_ahead(seconds_of(recording, rate, seconds), rate, options)
    made_ahead = len(voice.waves) - all_pieces
    converted = engine.convert(recording, rate, options)

    assert (all_pieces, made_ahead, len(voice.waves)) == (3, 2, all_pieces + 3)
    np.testing.assert_array_equal(converted, whole)


def test_pieces_of_another_recording_or_seed_are_not_taken() -> None:
    engine = engine_of(SineVoice())
    ahead = Ahead()
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
        ConversionOptions(ahead=Ahead()),
    )

    assert voice.waves == []


@pytest.mark.parametrize("recording", [signals.silence(2), np.full(40_000, 0.1, np.float32)])
def test_nothing_is_converted_ahead_where_nobody_speaks(recording: Array) -> None:
    voice = SineVoice()

    engine_of(voice).convert_ahead(recording, signals.RATE, ConversionOptions(ahead=Ahead()))

    assert voice.waves == []


def test_what_needs_the_whole_recording_is_not_converted_ahead() -> None:
    voice, options = SineVoice(), ConversionOptions(ahead=Ahead())
    parts = RvcVoice(voice, voice, None, VoiceOptions())
    with_model = RvcEngine(character(), parts, Fixed(300, hears_voicing=True))
    silent_voice = SineVoice(harmonics=0)

    with_model.convert_ahead(phrases(), signals.RATE, options)
    steered = ConversionOptions(pitch_shift=3, ahead=Ahead())
    engine_of(silent_voice).convert_ahead(phrases(), signals.RATE, steered)

    assert voice.waves == silent_voice.waves == []


def test_unvoiced_frames_are_passed_as_0_or_filled() -> None:
    recording = np.concatenate([word(), signals.hiss(0.2), word()])
    zero, fill = SineVoice(), SineVoice()

    engine_of(zero).convert(recording, signals.RATE, AUTO)
    engine_of(fill, VoiceOptions(unvoiced="fill")).convert(recording, signals.RATE, AUTO)

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
        options = VoiceOptions(loudness_mix=mix)
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

    RvcEngine(character(), RvcVoice(voice, voice, None, VoiceOptions()), pitch_model=model).convert(
        recording, signals.RATE, AUTO
    )

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
    options = VoiceOptions(index_rate=0.5, protect=0.2)
    recording = np.concatenate([word(), signals.hiss(0.2), word()])

    RvcEngine(character(), RvcVoice(voice, voice, retrieval, options)).convert(
        recording, signals.RATE, AUTO
    )

    voiced = contour_of(voice) > 0
    assert voice.features[voiced] == pytest.approx(0.5)
    assert voice.features[~voiced] == pytest.approx(0.1)
