"""The sentence that an owner agrees with."""

import datetime as dt
from typing import get_args

import pytest

from shared.characters.consent import ConsentSentence, Language, draw_sentence

DAY = dt.date(2026, 11, 23)


def test_a_sentence_names_the_day_and_four_words() -> None:
    sentence = ConsentSentence("en", DAY, ("apple", "river", "window", "table"))
    assert sentence.text == (
        "Today is November 23, 2026. I agree that a synthetic voice is made of my recordings."
        " Apple, river, window, table."
    )
    japanese = ConsentSentence("ja", DAY, ("りんご", "くるま", "とけい", "ピアノ"))
    assert japanese.text.startswith("今日は2026年11月23日です。")
    assert japanese.text.endswith("りんご、くるま、とけい、ピアノ。")


@pytest.mark.parametrize(
    ("language", "date"),
    [
        ("fr", "1er novembre 2026"),
        ("es", "1 de noviembre de 2026"),
        ("de", "1. November 2026"),
        ("it", "1º novembre 2026"),
    ],
)
def test_other_languages_have_sentences_of_their_own(language: Language, date: str) -> None:
    sentence = draw_sentence(language, DAY.replace(day=1))
    assert sentence.date == date
    assert date in sentence.text
    assert all(word.lower() in sentence.text.lower() for word in sentence.words)
    assert ConsentSentence.from_json(sentence.to_json()) == sentence


@pytest.mark.parametrize("language", get_args(Language))
def test_the_words_of_a_sentence_are_drawn_by_chance_and_differ(language: Language) -> None:
    drawn = [draw_sentence(language, DAY).words for _ in range(50)]
    assert all(len(set(words)) == 4 for words in drawn)
    assert len(set(drawn)) == 50


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"language":"en","day":"2026-11-23","words":[]}']
)
def test_what_is_no_sentence_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - JSON's own errors are of this kind, too
        ConsentSentence.from_json(text)


def test_a_sentence_holds_for_a_week_and_not_before_its_day() -> None:
    sentence = draw_sentence("en", DAY)
    assert sentence.holds_on(DAY)
    assert sentence.holds_on(sentence.last_day)
    assert not sentence.holds_on(sentence.last_day + dt.timedelta(days=1))
    assert not sentence.holds_on(DAY - dt.timedelta(days=1))
