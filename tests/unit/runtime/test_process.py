from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.runtime.process import plain_text
from shared.runtime.quoting import printable, quoted


@pytest.mark.parametrize("text", ["Mei", "メイの\u3000声", "two\nlines", "[/b] <b>", "é"])
def test_a_name_is_shown_as_it_is(text: str) -> None:
    assert plain_text(text) == text


@pytest.mark.parametrize(
    "sign", ["\x1b", "\x07", "\x9b", "\x08", "\r", "\0", "\u202e", "\u2066", "\u200b", "\ud800"]
)
def test_what_steers_a_terminal_or_turns_text_is_not_written(sign: str) -> None:
    assert plain_text(f"a{sign}[2J") == "a\ufffd[2J"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("weights", "'weights'"),
        ("声", "'声'"),
        ("it's", '"it\'s"'),
        ("a\nb\tc", r"'a\nb\tc'"),
        ("\x1b[2J\x9b", r"'\x1b[2J\x9b'"),
        ("\u2028\u202e\ufeff", r"'\u2028\u202e\ufeff'"),
        ("\ud800", r"'\ud800'"),
        (b"\x00PK", r"b'\x00PK'"),
        (7, "7"),
        (None, "None"),
        ([1], "a list"),
        ({}, "a dict"),
    ],
)
def test_a_value_is_quoted_in_one_line(value: object, told: str) -> None:
    assert quoted(value) == told


def test_a_long_value_is_cut() -> None:
    assert quoted("x" * 10_000) == "'" + "x" * 79 + "..."
    assert len(quoted("\U0010ffff" * 10_000)) < 100
    assert quoted(10**5_000) == "a long int"
    assert len(printable("\x00" * 10_000)) < 1_100


@given(st.text(st.characters(), max_size=200))
def test_no_text_has_more_than_one_line_or_steers_a_terminal(text: str) -> None:
    assert quoted(text).isprintable()
    assert printable(text).isprintable()
    assert not text.isprintable() or printable(text) == text


def test_what_is_printable_stays_as_it_is_and_the_rest_is_escaped() -> None:
    assert printable("found `\x7f` at 3\n2: 声") == r"found `\x7f` at 3\n2: 声"
