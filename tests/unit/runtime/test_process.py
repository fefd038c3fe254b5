from __future__ import annotations

import pytest

from shared.runtime.process import plain_text


@pytest.mark.parametrize("text", ["Mei", "メイの\u3000声", "two\nlines", "[/b] <b>", "é"])
def test_a_name_is_shown_as_it_is(text: str) -> None:
    assert plain_text(text) == text


@pytest.mark.parametrize(
    "sign", ["\x1b", "\x07", "\x9b", "\x08", "\r", "\0", "\u202e", "\u2066", "\u200b", "\ud800"]
)
def test_what_steers_a_terminal_or_turns_text_is_not_written(sign: str) -> None:
    assert plain_text(f"a{sign}[2J") == "a\ufffd[2J"
