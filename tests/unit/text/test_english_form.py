import time
from collections.abc import Callable

import pytest

from shared.speech.text.english_form import cardinal, ordinal, write_out, year


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Dr. Lee, 1,234 books", "Doctor Lee, one thousand two hundred thirty four books"),
        ("It cost $3.50, or £1, or €0.99.",
         "It cost three dollars and fifty cents, or one pound, or ninety nine cents."),
        ("$3 million, €2.5bn, ¥500",
         "three million dollars, two point five billion euros, five hundred yen"),
        ("$5M or ₹1.50", "five million dollars or one rupee and fifty paise"),
        ("On 2026-11-27.", "On November twenty seventh, twenty twenty six."),
        ("On 12/25/2001.", "On December twenty fifth, two thousand one."),
        ("On 31/12/2010.", "On December thirty first, twenty ten."),
        ("July 4, 1776 and 27 November",
         "July fourth, seventeen seventy six and twenty seventh of November"),
        ("At 7:45 p.m. or 10:05 or 9am.", "At seven forty five P M or ten oh five or nine A M."),
        ("At 10:00 and 14:00.", "At ten o'clock and fourteen hundred."),
        ("-5°C and 70°F", "minus five degrees Celsius and seventy degrees Fahrenheit"),
        ("5-10 people, the 4-2 win", "five to ten people, the four to two win"),
        ("1 km, 5 ft, 65 mph, 2.5GHz",
         "one kilometer, five feet, sixty five miles per hour, two point five gigahertz"),
        ("1/2, 3/4, 2/3, 24/7, 9/11",
         "one half, three quarters, two thirds, twenty four seven, nine eleven"),
        ("the 1990s, the '80s, the 21st", "the nineteen nineties, the eighties, the twenty first"),
        ("Call 555-0142.", "Call five five five, zero one four two."),
        ("(415) 555-2671", "four one five, five five five, two six seven one"),
        ("v2.0.1, 3.14, 007", "v two point zero point one, three point one four, zero zero seven"),
        ("World War II, Chapter IV", "World War two, Chapter four"),
        ("In the U.S. and the U.K.", "In the U S and the U K."),
        ("St. John on Main St.", "Saint John on Main Street"),
        ("a.b@c.org, https://www.example.com/x-y.",
         "a dot b at c dot org, example dot com slash x dash y."),
        ("50% & me + 1 = #1 #fun", "fifty percent and me plus one equals number one hashtag fun"),
        ("“Well” — it’s (almost) done…", '"Well", it\'s, almost, done.'),
        ("e.g. this, i.e. that, etc.", "for example this, that is that, et cetera"),
        ("1234567890000000", f"one two three four five six seven eight nine{7 * ' zero'}"),
        ("", ""), ("🎉", ""), (" , ", ""),
    ],
)  # fmt: skip
def test_texts_are_written_out_as_they_are_said(text: str, spoken: str) -> None:
    assert write_out(text) == spoken


@pytest.mark.parametrize("text", ["1" * 2_000, "1." * 1_000, "a" * 2_000, "1,234" * 400])
def test_no_text_takes_long_to_write_out(text: str) -> None:
    begun = time.process_time()
    write_out(text)

    assert time.process_time() - begun < 1.0


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
