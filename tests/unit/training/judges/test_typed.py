import pytest

from tools.training.judges.judgement import ErrorRate
from tools.training.judges.typed import read_sentences, words_wrong


@pytest.mark.parametrize(
    ("understood", "wrong"),
    [
        ("The bill comes to $3.50.", 0),
        ("the bill comes to three dollars and fifty cents", 0),
        ("The pill comes to $3.40.", 2),
    ],
)
def test_numbers_count_as_they_are_said_not_as_they_are_written(
    understood: str, wrong: int
) -> None:
    assert words_wrong("The bill comes to $3.50.", understood, "en") == ErrorRate(wrong, 9)


def test_characters_of_japanese_are_counted() -> None:
    assert words_wrong("今日は。", "今日も", "ja") == ErrorRate(1, 3)


def test_a_third_of_the_english_sentences_has_numbers() -> None:
    english = read_sentences()["en"]

    assert len(english) == 100
    assert 30 <= sum(any(map(str.isdigit, line)) for line in english) <= 40
