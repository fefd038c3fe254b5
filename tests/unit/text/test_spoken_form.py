import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.speech.text.spoken_form import write_out

SPEAKABLE = re.compile(
    r"[A-Za-z0-9\u0370-\u03ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff々%℃、。!?,.'/: -"
    r"\ufa0e-\ufa29\U00020000-\U0003ffff]*"
)


@pytest.mark.parametrize(
    ("text", "spoken"), [("\u202eあ\u200bい\x00", "あい"), ("!?…", ""), ("привет", "")]
)
def test_what_cannot_be_said_is_left_out(text: str, spoken: str) -> None:
    assert write_out(text) == spoken


@given(st.text())
def test_only_readable_text_remains(text: str) -> None:
    assert SPEAKABLE.fullmatch(write_out(text))
