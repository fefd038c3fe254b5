from collections.abc import Callable

import pytest

from shared.speech.text.english_form import cardinal, ordinal, write_out, year


@pytest.mark.parametrize("text", ["", "🎉", " , "])
def test_a_text_without_words_is_empty(text: str) -> None:
    assert write_out(text) == ""


@pytest.mark.parametrize(
    ("write", "number", "words"),
    [
        (cardinal, 0, "zero"),
        (cardinal, 1_000_114, "one million one hundred fourteen"),
        (ordinal, 12, "twelfth"),
        (ordinal, 20, "twentieth"),
        (ordinal, 103, "one hundred third"),
        (year, 1900, "nineteen hundred"),
        (year, 1905, "nineteen oh five"),
        (year, 2007, "two thousand seven"),
    ],
)
def test_numbers_are_written_in_words(write: Callable[[int], str], number: int, words: str) -> None:
    assert write(number) == words


def test_a_number_that_python_does_not_convert_is_written_digit_by_digit() -> None:
    assert write_out("7" * 5000) == " ".join(["seven"] * 5000)
