from __future__ import annotations

import pytest

from functions.compat.speech.synthesis import SpeechLimits
from functions.compat.speech.texts import check_seconds, speak_long
from speech.engines.interface.text_engine import SpeechOptions, TextError, TextErrorCode
from tests.support.speakers import Sentences


def test_a_text_longer_than_an_engine_takes_is_spoken_in_parts_with_pauses() -> None:
    engine = Sentences()
    text = "".join(f"これは{number}番目の文です。" for number in range(400))

    pieces = list(speak_long(engine, text, SpeechOptions(speed=2.0)))

    assert len(text) > 4000
    assert len(pieces) == 400
    assert engine.spoken == [each for each in text.split("。") if each]
    first, *middle, last = engine.asked
    assert (first.silence_before, first.silence_after) == (0.1, 0.0)
    assert {each.silence_before for each in (*middle, last)} == {0.225}
    assert (last.silence_after, {each.silence_after for each in middle}) == (0.1, {0.0})


def test_a_part_without_words_is_passed_over() -> None:
    text = "はい。" + "！" * 2_500 + "\nいいえ。"

    pieces = list(speak_long(Sentences(), text, SpeechOptions()))

    assert len(pieces) >= 2


def test_a_text_without_words_is_refused() -> None:
    with pytest.raises(TextError) as refused:
        list(speak_long(Sentences(), "！？" * 2_000, SpeechOptions()))

    assert refused.value.code is TextErrorCode.NOTHING_TO_SAY


@pytest.mark.parametrize(
    ("text", "speed", "is_taken"),
    [
        ("あ" * 3_000, 1.0, True),
        ("あ" * 4_096, 1.0, False),
        ("あ" * 1_000, 0.25, False),
        ("a" * 4_096, 1.0, True),
        ("a" * 4_096, 0.25, False),
        ("。" * 4_096, 0.25, True),
    ],
)
def test_what_takes_too_long_to_say_is_refused_before_it_is_spoken(
    text: str, speed: float, *, is_taken: bool
) -> None:
    if is_taken:
        check_seconds(text, speed, SpeechLimits(seconds=300))
    else:
        with pytest.raises(TextError, match="Send it in parts"):
            check_seconds(text, speed, SpeechLimits(seconds=300))
