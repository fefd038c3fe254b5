import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.speech.text.normalisation import normalise

PLAIN = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff々A-Za-z\u0370-\u03ff\u1f00-\u1fff!?,.'-]*"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("１，２３４円", "千二百三十四円"),
        ("$100と€20.5", "百ドルと二十点五ユーロ"),
        ("5$", "五."),
        ("0.05", "零点零五"),
        ("1.50", "一点五"),
        ("-3", "-三"),
        ("80%", "八十"),
        ("12:30", "十二三十"),
        ("あ・い", "あ,い"),
        ("・・・…", "......"),
        ("「あ」（い）【う】『え』", "'あ''い''う'え"),
        ("すごーい〜～~", "すごーいーーー"),
        ("A\u2014B\u2013C", "A-B-C"),
        ("あ゛る゙な゚", "あるな"),
        ("ﾊﾟﾋﾟ", "パピ"),
        ("一行\n二行", "一行.二行"),
        ("々〆〇", "々"),
        ("αΩ", "αΩ"),
        ("привет שלום 😀☆", ""),
        ("\u202e\x00\x1b あ", "あ"),
        ("！？。、", "!?.,"),
        ("山﨑と𠮷田", "山崎と吉田"),
        ("<b>はい</b>", "はい"),
    ],
)
def test_a_text_is_written_plainly(text: str, expected: str) -> None:
    assert normalise(text) == expected


def test_a_number_without_words_keeps_its_digits() -> None:
    assert normalise("1" + "0" * 5000) == "一" + "零" * 5000
    assert normalise("9" * 400 + ".5") == "九" * 400 + "点五"


@given(st.text())
def test_nothing_but_plain_signs_remains(text: str) -> None:
    assert PLAIN.fullmatch(normalise(text))


@given(st.text())
def test_a_plain_text_stays_as_it_is(text: str) -> None:
    once = normalise(text)

    assert normalise(once) == once
