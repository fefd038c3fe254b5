"""Engines that mark what they speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from shared.conversion.characters import build_character
from shared.speech.engines.interface import (
    ConversionOptions,
    ConvertsAhead,
    EarlyPieces,
    speak_marked,
)
from shared.speech.engines.registry import ENGINES
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.results.watermark import Watermark, WatermarkKey
from shared.speech.results.watermark_detection import find_watermark
from shared.speech.results.watermark_engines import MarkedEngine, Marker
from tests.unit.engines.test_characters import CHARACTERS
from tests.unit.results.stranger_speech import RATE, read_aloud
from tools.bundles.trial import speech_like

if TYPE_CHECKING:
    from shared.conversion.characters import LoadedCharacter
    from shared.speech.engines.text_interface import PhraseEngine
    from shared.speech.signal.sound import Samples, StageClock

KEY = WatermarkKey(b"another key of the tests, secret")
MARKER = Marker(KEY, 1, {"mei": 77})
OPTIONS = ConversionOptions(seed=5)


@pytest.fixture(scope="module")
def characters() -> tuple[LoadedCharacter, LoadedCharacter]:
    """Mei as she is, and marked."""
    bundle = load_character(CHARACTERS / "mei", ENGINES)
    settings = SessionSettings()
    return build_character(bundle, settings), build_character(bundle, settings, marker=MARKER)


def found_in(samples: Samples) -> int | None:
    finding = find_watermark(samples, RATE, [KEY])
    return finding.payload if finding is not None and finding.is_found else None


def test_a_conversion_is_marked_with_the_bits_of_its_character(
    characters: tuple[LoadedCharacter, LoadedCharacter],
) -> None:
    plain, marked = (each.engine for each in characters)
    recording = read_aloud(4.0)

    result = marked.convert(recording, RATE, OPTIONS)

    assert found_in(result) == 77
    assert found_in(plain.convert(recording, RATE, OPTIONS)) is None
    np.testing.assert_array_equal(result, marked.convert(recording, RATE, OPTIONS))


def test_what_is_heard_live_is_marked_and_has_every_sample(
    characters: tuple[LoadedCharacter, LoadedCharacter],
) -> None:
    recording = read_aloud(5.0)
    stream = characters[1].engine.open_stream(RATE, OPTIONS)
    assert stream is not None

    heard = [stream.push(piece) for piece in np.array_split(recording, 50)]
    whole = np.concatenate([*heard, stream.finish()])

    assert stream.wanted >= 0
    assert len(whole) == len(recording)
    assert found_in(whole) == 77


def test_a_spoken_text_is_marked_once(
    characters: tuple[LoadedCharacter, LoadedCharacter],
) -> None:
    plain, marked = (each.text_engine for each in characters)
    assert plain is not None
    assert marked is not None
    text = "こんにちは。きょうは、とてもいい天気ですね。あしたも、晴れるでしょう。"

    spoken = np.concatenate(list(marked.speak(text, SpeechOptions(seed=3))))
    phrases = marked.read_phrases(text)
    again = np.concatenate(list(marked.speak_phrases(phrases, text, SpeechOptions(seed=3))))

    expected = MARKER.text_engine("mei", plain)
    np.testing.assert_array_equal(
        spoken, np.concatenate(list(expected.speak(text, SpeechOptions(seed=3))))
    )
    assert found_in(spoken) == found_in(again) == 77


def test_a_marked_text_tells_its_phones_where_they_are_heard(
    characters: tuple[LoadedCharacter, LoadedCharacter],
) -> None:
    plain, marked = (each.text_engine for each in characters)
    assert plain is not None
    assert marked is not None
    text = "こんにちは。きょうは、とてもいい天気ですね。"

    expected, samples = phones_of(plain, text)
    phones, marked_samples = phones_of(marked, text)

    assert [phone for phone, _ in phones[:4]] == ["k", "o", "N", "n"]
    assert phones == expected
    assert len(marked_samples) == len(samples)
    assert found_in(marked_samples) == 77


def phones_of(engine: PhraseEngine, text: str) -> tuple[list[tuple[str, float]], Samples]:
    """The phones of a text with the seconds at which they begin, and its samples."""
    found, pieces, begin = [], [], 0
    for piece in speak_marked(engine, text, SpeechOptions(seed=3)):
        seconds = begin / engine.sample_rate
        phones = [mark for mark in piece.marks if mark.kind == "phone"]
        found += [(mark.text, round(mark.begin + seconds, 6)) for mark in phones]
        pieces.append(piece.samples)
        begin += len(piece.samples)
    return found, np.concatenate(pieces)


class SlowEngine:
    """Repeats the recording and keeps what it was told to convert ahead."""

    sample_rate = RATE

    def __init__(self) -> None:
        self.ahead: list[int] = []

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        del sample_rate, options, stopwatch
        return samples

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        del sample_rate, options

    def convert_ahead(self, samples: Samples, sample_rate: int, options: ConversionOptions) -> None:
        del sample_rate, options
        self.ahead.append(len(samples))


def test_a_slow_engine_still_converts_ahead_and_another_one_does_not() -> None:
    slow = SlowEngine()
    marked = MARKER.engine("slow", slow)
    samples = speech_like(1.0, RATE)

    assert isinstance(marked, ConvertsAhead)
    marked.convert_ahead(samples, RATE, ConversionOptions(ahead=EarlyPieces()))
    assert slow.ahead == [len(samples)]
    assert marked.open_stream(RATE, OPTIONS) is None
    assert not isinstance(MarkedEngine(slow, Watermark(KEY, 1, RATE)), ConvertsAhead)
