from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.speech.engines.interface import Mark
from shared.speech.engines.japanese import HtsVoice, JapaneseEngine, split_breaths
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.signal import pitch
from shared.speech.signal.samples import resample
from shared.speech.text.front_end import FrontEnd, Reader
from tests.support.logs import log_book
from tests.support.text_engine_contract import TextEngineContract, whole

RATE = 24_000
SENTENCE = "今日は、とてもいい天気ですね。"


@pytest.fixture(scope="module")
def engine() -> JapaneseEngine:
    return JapaneseEngine(HtsVoice(), FrontEnd(), sample_rate=RATE)


class TestJapanese(TextEngineContract):
    pass


def octaves(wave: NDArray[np.float32]) -> NDArray[np.float32]:
    hertz = pitch.track(resample(wave, RATE, pitch.SAMPLE_RATE)).hertz
    voiced: NDArray[np.float32] = np.log2(hertz[hertz > 0])
    return voiced


def test_pitch_and_intonation_change_the_melody(engine: JapaneseEngine) -> None:
    usual, high, flat = (
        octaves(whole(engine, SENTENCE, **options))
        for options in ({}, {"pitch": 4.0}, {"intonation": 0.2})
    )

    assert (np.median(high) - np.median(usual)) * 12 == pytest.approx(4.0, abs=0.4)
    assert np.std(flat) < 0.5 * np.std(usual)


@pytest.mark.parametrize(("pauses", "seconds"), [(1.0, 0.3), (3.0, 0.9)])
def test_a_pause_at_a_comma_is_as_long_as_that_of_voicevox(
    engine: JapaneseEngine, pauses: float, seconds: float
) -> None:
    text = "今日は、いい天気です。"
    first, second, after = engine.speak(text, SpeechOptions(pauses=pauses))

    marked = next(mark for mark in marks_of(engine, text, pauses=pauses) if mark.text == "いい")
    assert marked.begin == pytest.approx(len(first) / RATE + seconds, abs=0.02)

    assert quiet_ends(first)[0] / RATE == pytest.approx(0.1, abs=0.02)
    assert quiet_ends(second)[0] / RATE == pytest.approx(seconds, abs=0.02)
    assert len(after) / RATE == pytest.approx(0.1)


def quiet_ends(wave: NDArray[np.float32]) -> tuple[int, int]:
    """How many samples at either end lie below what can be heard beside speech."""
    frame = 48
    levels = np.sqrt(np.mean(np.square(wave[: len(wave) // frame * frame].reshape(-1, frame)), 1))
    heard = np.flatnonzero(levels > 1e-3)
    return int(heard[0]) * frame, len(wave) - (int(heard[-1]) + 1) * frame


def marks_of(engine: JapaneseEngine, text: str, **options: Any) -> list[Mark]:
    """All marks of a text, in seconds from its first sample on."""
    found, seconds = [], 0.0
    for piece in engine.speak_marked(text, SpeechOptions(**options)):
        found += [mark.later(seconds) for mark in piece.marks]
        seconds += len(piece.samples) / RATE
    return found


def test_marks_name_the_words_as_they_are_read_and_their_phones(engine: JapaneseEngine) -> None:
    text, options = "Hello、2人です。", SpeechOptions(speed=1.3, pauses=0.5)
    marks = marks_of(engine, text)

    words = [mark.text for mark in marks if mark.kind == "word"]
    phones = [mark.text for mark in marks if mark.kind == "phone"]
    assert words[0] == "ハロー"
    assert words[-1] == "です"
    assert phones[:5] == ["h", "a", "r", "o", "o"]
    assert phones[-4:] == ["d", "e", "s", "U"]
    assert [mark.begin for mark in marks] == sorted(mark.begin for mark in marks)
    for marked, plain in zip(
        engine.speak_marked(text, options), engine.speak(text, options), strict=True
    ):
        np.testing.assert_array_equal(marked.samples, plain)


@pytest.mark.parametrize(
    ("text", "word"),
    [("消費税は10%です。", "％"), ("0円", "０"), ("電話は03-1234-5678です。", "３")],
)
def test_numbers_are_spoken_with_marks_up_to_their_end(
    engine: JapaneseEngine, text: str, word: str
) -> None:
    marks = marks_of(engine, text)

    assert word in [mark.text for mark in marks if mark.kind == "word"]
    assert all(mark.text for mark in marks)
    assert marks[-1].begin > len(whole(engine, text)) / RATE - 0.6


@pytest.mark.parametrize(("speed", "off"), [(1.0, 0.001), (2.0, 0.02)])
def test_a_mark_lies_where_the_speech_of_what_precedes_it_ends(
    engine: JapaneseEngine, speed: float, off: float
) -> None:
    text = "東京へ行きました"
    voice = HtsVoice()
    labels = split_breaths(Reader().read(text).labels)[0][1:-1]
    ends = [
        len(voice.synthesise(labels[:count], speed, 0.0)) / voice.sample_rate
        for count in range(1, len(labels))
    ]

    marks = marks_of(engine, text, speed=speed, silence_before=0.0)

    begins = [mark.begin for mark in marks if mark.kind == "phone"]
    # Silence before the first sound is cut off: all later marks lie by as much earlier.
    cut = ends[-1] - begins[-1]
    assert 0 <= cut < 0.1
    assert np.array(begins[1:]) + cut == pytest.approx(ends, abs=off)


class UnmeasuredVoice(HtsVoice):
    """Speaks, but cannot say how long its phones last."""

    def durations(self, labels: Sequence[str]) -> list[float]:
        raise ValueError(f"no durations of {len(labels)} labels")


def test_a_text_whose_marks_fail_is_spoken_without_them_and_counted_once() -> None:
    faulty = JapaneseEngine(UnmeasuredVoice(), FrontEnd(), sample_rate=RATE)

    with log_book() as book:
        pieces = list(faulty.speak_marked(SENTENCE * 2, SpeechOptions()))

    np.testing.assert_array_equal(
        np.concatenate([piece.samples for piece in pieces]), whole(faulty, SENTENCE * 2)
    )
    assert [piece.marks for piece in pieces] == [()] * len(pieces)
    (entry,) = book.of("marks_left_out")
    assert entry["severity"] == "ERROR"
    assert "no durations of" in entry["stack_trace"]
    assert "天気" not in str(entry)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (SENTENCE * 5, {}),
        ("9" * 100, {"speed": 2.0, "silence_after": 1.0}),
        ("電話番号は、東京の、三の五です。" * 3, {"pauses": 3.0}),
        *((kana * 100, {}) for kana in "あんっゃ"),
    ],
)
def test_the_length_of_a_text_is_estimated_before_it_is_spoken(
    engine: JapaneseEngine, text: str, options: dict[str, Any]
) -> None:
    estimate = engine.estimate(text, SpeechOptions(**options))

    assert estimate == pytest.approx(len(whole(engine, text, **options)) / RATE, rel=0.15)


class CountingVoice(HtsVoice):
    """Counts the labels that its synthesiser is given."""

    counted = 0

    def _synthesise(
        self, labels: Sequence[str], speed: float, semitones: float
    ) -> NDArray[np.float32]:
        self.counted += len(labels)
        return super()._synthesise(labels, speed, semitones)


@pytest.mark.parametrize("kana", ["あ", "ん", "っ", "は", "あい", "草", "えー"])
def test_a_sound_that_is_too_loud_for_the_voice_is_hardly_synthesised_more_than_twice(
    kana: str,
) -> None:
    voice = CountingVoice()
    (labels,) = split_breaths(Reader().read((kana * 60)[:60]).labels)

    voice.synthesise(labels[1:-1], 1.0, 0.0)

    assert voice.counted / len(labels) < 2.2


def test_a_phrase_without_end_is_spoken_in_bounded_pieces(engine: JapaneseEngine) -> None:
    (phrase, *_) = engine.read_phrases("かきくけこ")
    endless = replace(phrase, morae=phrase.sounding * 60, accent=150)

    pieces = list(engine.speak_phrases([endless], None, SpeechOptions()))

    assert len(pieces) == 4  # of 125, 125 and 50 morae, and the silence after
    assert max(map(len, pieces)) < 25 * RATE
