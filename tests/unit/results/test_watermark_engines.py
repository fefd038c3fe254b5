"""Engines that mark what they speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shared.conversion.characters import build_character
from shared.speech.engines.interface import (
    ConversionOptions,
    ConvertsAhead,
    EarlyPieces,
    Mark,
    MarkedPiece,
    speak_marked,
)
from shared.speech.engines.registry import ENGINES
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.results.watermark import Watermark, WatermarkKey
from shared.speech.results.watermark_detection import find_watermark
from shared.speech.results.watermark_engines import MarkedEngine, MarkedTextEngine, Marker
from tests.unit.engines.test_characters import CHARACTERS
from tests.unit.results.stranger_speech import RATE, read_aloud

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.speech.signal.sound import Samples

KEY = WatermarkKey(b"another key of the tests, secret")
MARKER = Marker(KEY, 1, {"mei": 77})
OPTIONS = ConversionOptions(seed=5)
SPEECH = SpeechOptions(seed=3)


class Reader:
    """Gives recordings back, also while they come, and reads every text in the same way."""

    sample_rate = RATE
    languages = ("ja",)
    wanted = 0

    def __init__(self) -> None:
        self.ahead: list[int] = []

    def convert(self, samples: Samples, *_: object) -> Samples:
        return samples

    def convert_ahead(self, samples: Samples, *_: object) -> None:
        self.ahead.append(len(samples))

    def open_stream(self, _sample_rate: int, options: ConversionOptions) -> Reader | None:
        return None if options.seed == 0 else self

    def push(self, samples: Samples) -> Samples:
        return samples

    def finish(self) -> Samples:
        return np.zeros(0, np.float32)

    def speak_marked(self, _text: str, _options: SpeechOptions) -> Iterator[MarkedPiece]:
        for piece in np.array_split(read_aloud(4.0), 7):
            yield MarkedPiece(piece, (Mark("phone", "a", 0.001), Mark("phone", "b", 0.1)))

    def speak(self, *_: object) -> Iterator[Samples]:
        return (piece.samples for piece in self.speak_marked("", SPEECH))

    def read_phrases(self, _text: str) -> list[Any]:
        return []

    speak_phrases = speak


def found_in(samples: Samples) -> int | None:
    finding = find_watermark(samples, RATE, [KEY])
    return finding.payload if finding is not None and finding.is_found else None


def test_a_conversion_is_marked_with_the_bits_of_its_character() -> None:
    marked, recording = MARKER.engine("mei", cast("Any", Reader())), read_aloud(4.0)

    result = marked.convert(recording, RATE, OPTIONS)

    assert found_in(recording) is None
    assert found_in(result) == 77
    assert (
        found_in(MARKER.engine("hina", cast("Any", Reader())).convert(recording, RATE, OPTIONS))
        == 1
    )
    np.testing.assert_array_equal(result, marked.convert(recording, RATE, OPTIONS))


def test_what_is_heard_live_is_marked_as_the_whole_is_and_has_every_sample() -> None:
    marked, recording = MARKER.engine("mei", cast("Any", Reader())), read_aloud(4.0)
    stream = marked.open_stream(RATE, OPTIONS)
    assert stream is not None
    assert stream.wanted == 0

    heard = [stream.push(piece) for piece in np.array_split(recording, 50)]
    whole = np.concatenate([*heard, stream.finish()])

    np.testing.assert_array_equal(whole, marked.convert(recording, RATE, OPTIONS))
    assert marked.open_stream(RATE, ConversionOptions(seed=0)) is None


def test_a_spoken_text_is_marked_once_and_tells_its_phones_where_they_are_heard() -> None:
    plain = cast("Any", Reader())
    marked = MARKER.text_engine("mei", plain)

    spoken = np.concatenate(list(marked.speak("", SPEECH)))
    phrases = np.concatenate(list(marked.speak_phrases(marked.read_phrases(""), "", SPEECH)))
    phones, samples = phones_of(marked)

    assert found_in(spoken) == 77
    np.testing.assert_array_equal(spoken, phrases)
    np.testing.assert_array_equal(spoken, samples)
    assert len(phones) == 14
    assert phones == phones_of(plain)[0]


def phones_of(engine: Any) -> tuple[list[tuple[str, float]], Samples]:
    """The phones of a text with the seconds at which they begin, and its samples."""
    found, pieces, begin = [], [], 0
    for piece in speak_marked(engine, "", SPEECH):
        seconds = begin / RATE
        found += [(mark.text, round(mark.begin + seconds, 6)) for mark in piece.marks]
        pieces.append(piece.samples)
        begin += len(piece.samples)
    return found, np.concatenate(pieces)


def test_a_slow_engine_still_converts_ahead_and_another_one_does_not() -> None:
    slow = Reader()
    marked = MARKER.engine("slow", cast("Any", slow))

    assert isinstance(marked, ConvertsAhead)
    marked.convert_ahead(read_aloud(1.0), RATE, ConversionOptions(ahead=EarlyPieces()))
    assert slow.ahead == [RATE]
    unable = MarkedEngine(cast("Any", slow), Watermark(KEY, 1, RATE))
    assert not isinstance(unable, ConvertsAhead)


def test_a_character_is_built_with_the_engines_that_mark() -> None:
    bundle = load_character(CHARACTERS / "mei", ENGINES)
    character = build_character(bundle, SessionSettings(), marker=MARKER)

    assert isinstance(character.engine, MarkedEngine)
    assert character.engine.watermark.payload == 77
    assert isinstance(character.text_engine, MarkedTextEngine)
