"""What is counted as understood wrongly."""

import math

import pytest

from training.judges.words import ErrorRate, compare, units


def test_japanese_is_counted_in_characters_whatever_their_width_and_the_signs_between_them() -> (
    None
):
    assert units("ＡＢ、 今日は。", "ja") == ["a", "b", "今", "日", "は"]


def test_english_is_counted_in_words_without_case_and_signs() -> None:
    assert units("Don't go — she said.", "en") == ["dont", "go", "she", "said"]


@pytest.mark.parametrize(
    ("understood", "wrong"),
    [
        ("one two three", 0),
        ("One, two: three!", 0),
        ("one three", 1),
        ("one two two three", 1),
        ("won two three", 1),
        ("two one three", 2),
        ("", 3),
        ("four five six seven", 4),
    ],
)
def test_what_is_missing_too_much_or_another_word_is_wrong(understood: str, wrong: int) -> None:
    assert compare("one two three", understood, "en") == ErrorRate(wrong, 3)


def test_sentences_are_added_up_by_their_lengths_and_not_by_their_shares() -> None:
    both = compare("a b c d e f g h i", "a b c d e f g h i", "en") + compare("a", "b", "en")
    assert both == ErrorRate(1, 10)
    assert both.share == pytest.approx(0.1)


def test_of_nothing_said_no_share_is_wrong() -> None:
    assert math.isnan(ErrorRate().share)
