from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import CharacterManifest, TextSpeech
from shared.speech.engines.interface import ConversionOptions, Mark, MarkedPiece, speak_marked
from shared.speech.engines.japanese import HtsVoice, JapaneseEngine
from shared.speech.engines.kokoro_packages import KokoroPackages
from shared.speech.engines.registry import ENGINES, LazyTextEngine, build_engine, build_text_engine
from shared.speech.engines.text_interface import (
    PhraseEngine,
    SpeechOptions,
    TextError,
    TextErrorCode,
    nothing_to_say,
    text_numbers,
)
from shared.speech.engines.two_step_speech import SpeechByLanguage, TwoStepSpeech
from shared.speech.graphs.bundle import CharacterBundle
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.signal import pitch
from shared.speech.signal.samples import resample
from shared.speech.signal.sound import Samples
from shared.speech.text.accents import AccentPhrase
from shared.speech.text.front_end import FrontEnd
from tests.support.characters import a_manifest
from tests.support.speakers import Sentences
from tests.support.text_engine_contract import TextEngineContract, whole


class Saying(Sentences):
    """Says a text in one language, and no phrases."""

    def __init__(self, language: str) -> None:
        super().__init__(languages=(language,))

    def estimate(self, text: str, options: SpeechOptions) -> float:
        if not any(map(str.isalpha, text)):
            raise nothing_to_say(text, self.languages)
        return super().estimate(text, options)

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        raise NotImplementedError

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        del phrases, text
        return self.speak("", options)


class Sayer(Saying):
    """Stands for the built-in voice: a second, a pause with a short word, the silence after."""

    def __init__(self) -> None:
        super().__init__("ja")
        self.sample_rate = 16_000

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        del text
        self.asked.append(options)
        short = np.concatenate([np.zeros(800), np.full(800, 0.25)])
        pieces = (np.full(16_000, 0.5), short, np.zeros(1_600))
        return (piece.astype(np.float32) for piece in pieces)


class Doubler:
    """Stands for an engine: answers at another rate with what it heard; remembers the wishes."""

    sample_rate = 48_000

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.wishes: list[ConversionOptions] = []

    def convert(
        self, samples: Samples, sample_rate: int, options: ConversionOptions, clock: object = None
    ) -> Samples:
        del clock
        assert sample_rate == 16_000
        self.lengths.append(len(samples))
        self.wishes.append(options)
        return np.repeat(samples, 3)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        del sample_rate, options


def speech(manifest: CharacterManifest) -> tuple[TwoStepSpeech, Sayer, Doubler]:
    sayer, doubler = Sayer(), Doubler()
    return TwoStepSpeech(sayer, 110.0, doubler, manifest), sayer, doubler


def test_each_piece_is_converted_and_keeps_its_length_and_its_silences() -> None:
    spoken, _, doubler = speech(a_manifest())  # converts from a second on
    pieces = list(spoken.speak("はい。", SpeechOptions()))

    assert [len(piece) for piece in pieces] == [48_000, 4_800, 4_800]
    assert not pieces[1][:2_400].any()
    assert pieces[1][2_400:].all()
    assert not pieces[2].any()
    assert len(doubler.lengths) == 2  # silence needs no conversion
    assert min(doubler.lengths) > 16_000  # the short piece has silence after it
    marked = speak_marked(spoken, "はい。", SpeechOptions())
    assert {piece.marks for piece in marked} == {()}, "the voice knows none"


def test_the_pitch_is_moved_by_as_much_in_every_piece_if_it_can_be() -> None:
    for changes, shift in (({}, 12.0), ({"pitch": None}, None)):  # speaks at 220 Hz
        spoken, _, doubler = speech(a_manifest().model_copy(update=changes))
        list(spoken.speak("はい。", SpeechOptions(seed=7)))

        assert [(each.pitch_shift, each.seed) for each in doubler.wishes] == [(shift, 7)] * 2


def test_what_is_asked_of_the_voice_and_of_the_result_is_done_once() -> None:
    spoken, sayer, _ = speech(a_manifest())
    louder = next(spoken.speak("はい。", SpeechOptions()))
    softer = next(spoken.speak_phrases([], None, SpeechOptions(volume=0.5)))
    asked = SpeechOptions(speed=2.0, pitch=3.0, intonation=0.5, volume=0.5, silence_before=0.3)
    next(spoken.speak("はい。", asked))

    assert sayer.asked[2] == SpeechOptions(
        speed=2.0, intonation=0.5, silence_before=0.3, whole=True
    )
    assert np.abs(softer).max() == pytest.approx(np.abs(louder).max() / 2, rel=0.01)


class MarkingSayer(Sayer):
    """Knows when its word begins."""

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        pieces = self.speak(text, options)
        return (MarkedPiece(piece, (Mark("word", "はい", 0.25),)) for piece in pieces)


def test_a_converted_voice_has_the_marks_of_the_voice_that_is_converted() -> None:
    converted = TwoStepSpeech(MarkingSayer(), 110.0, Doubler(), a_manifest())
    deferred = LazyTextEngine(48_000, ("ja",), lambda: converted)

    pieces = list(speak_marked(deferred, "はい。", SpeechOptions()))

    assert [piece.marks for piece in pieces] == [(Mark("word", "はい", 0.25),)] * 3
    np.testing.assert_array_equal(
        pieces[0].samples, next(converted.speak("はい。", SpeechOptions()))
    )


@pytest.fixture(scope="module")
def engine() -> TwoStepSpeech:
    voice = JapaneseEngine(HtsVoice(), FrontEnd(), sample_rate=16_000)
    return TwoStepSpeech(voice, 110.0, Doubler(), a_manifest())


class TestTwoStepSpeech(TextEngineContract):
    pass


def speaker_of(name: str, **changes: Any) -> PhraseEngine:
    character = load_character(Path("characters") / name, ENGINES)
    manifest = character.manifest.model_copy(update=changes)
    character = CharacterBundle(manifest, character.graphs)
    settings = SessionSettings()
    engine = build_text_engine(character, build_engine(character, settings), settings)
    assert engine is not None
    return engine


@pytest.mark.parametrize("changes", [{}, {"text": TextSpeech(engine="kokoro")}])
def test_without_kokoro_the_other_voice_speaks_as_high_as_the_character_is(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KokoroPackages, "is_complete", lambda _: False)
    engine = speaker_of("ned", **changes)
    wave = whole(engine, "今日は、とてもいい天気ですね。")
    hertz = pitch.track(resample(wave, engine.sample_rate, pitch.SAMPLE_RATE)).hertz

    assert engine.languages == ("ja",)
    assert 2.0 < len(wave) / engine.sample_rate < 4.5
    assert 0.1 < np.abs(wave).max() <= 1.0
    assert np.median(hertz[hertz > 0]) == pytest.approx(124.7, rel=0.12)


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("mei", ("ja", "en")),
        ("hina", ("ja", "en", "es", "it", "pt")),
        ("ned", ("en", "ja")),
    ],
)
def test_with_kokoro_every_character_speaks_english(
    name: str, languages: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KokoroPackages, "is_complete", lambda _: True)
    for wanted in (languages, ("ja",)):
        assert tuple(speaker_of(name, languages=wanted).languages) == wanted


def test_each_language_is_spoken_by_its_engine_with_pauses_between() -> None:
    japanese, english = Saying("ja"), Saying("en")
    engine = SpeechByLanguage({"ja": japanese, "en": english})
    options = SpeechOptions(silence_before=0.3, silence_after=0.2, pauses=2.0)

    pieces = list(engine.speak("はい。Hello there. いいえ。안녕", options))

    assert len(pieces) == 3
    assert (japanese.spoken, english.spoken) == (["はい", "いいえ"], ["Hello there. "])
    silences = [(each.silence_before, each.silence_after) for each in japanese.asked]
    assert silences == [(0.3, 0.0), (0.9, 0.2)]
    assert english.asked[0].silence_before == 0.9
    assert engine.estimate("はい。Hello.", options) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        ("안녕", {}, TextErrorCode.TEXT_UNREADABLE),
        ("!?", {}, TextErrorCode.NOTHING_TO_SAY),
        ("はい", {"language": "fr"}, TextErrorCode.TEXT_UNREADABLE),
    ],
)
def test_what_no_language_of_the_character_reads_is_refused(
    text: str, options: dict[str, Any], code: TextErrorCode
) -> None:
    engine = SpeechByLanguage({"ja": Saying("ja"), "en": Saying("en")})

    with pytest.raises(TextError, match="Japanese or English") as caught:
        engine.speak(text, SpeechOptions(**options))
    assert caught.value.code is code


def test_settings_of_a_text_engine_are_numbers_of_known_names() -> None:
    def read(**settings: float | str) -> dict[str, float]:
        manifest = a_manifest().model_copy(update={"text": TextSpeech(settings=settings)})
        return text_numbers(manifest, semitones=0.0, gain=1.0)

    assert read(gain=2) == {"semitones": 0.0, "gain": 2.0}
    assert text_numbers(a_manifest(), gain=1.0) == {"gain": 1.0}
    for name, value in (("gain", True), ("gain", "loud"), ("depth", 1)):
        expected = rf"'text.settings.{name}': expected a number, of semitones or gain alone"
        with pytest.raises(BundleError, match=expected):
            read(**{name: value})
