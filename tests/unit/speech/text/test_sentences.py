from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speech.text.reading import Reader
from speech.text.sentences import read_sentences, split_sentences


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        (" \n ", []),
        ("こんにちは", ["こんにちは"]),
        (
            "今日はいい天気ですね。散歩に行きましょう！",
            ["今日はいい天気ですね。", "散歩に行きましょう！"],
        ),
        ("え？本当にそうなんですか。", ["え？本当にそうなんですか。"]),
        (
            "「今日は晴れですね。」と彼は言いました。",
            ["「今日は晴れですね。」", "と彼は言いました。"],
        ),
        ("気温は25.5度、円周率は3.14です。", ["気温は25.5度、円周率は3.14です。"]),
        ("This is a pen. That is a book.", ["This is a pen.", "That is a book."]),
        ("一行目の文章です\n二行目の文章です", ["一行目の文章です", "二行目の文章です"]),
    ],
)
def test_a_text_is_cut_after_its_sentences(text: str, pieces: list[str]) -> None:
    assert split_sentences(text) == pieces


def test_a_sentence_that_is_too_long_is_cut_at_a_comma() -> None:
    pieces = split_sentences("あ" * 70 + "、" + "い" * 70 + "。")

    assert pieces == ["あ" * 70 + "、", "い" * 70 + "。"]


def test_a_sentence_without_a_comma_is_cut_wherever_it_is_too_long() -> None:
    assert [len(piece) for piece in split_sentences("あ" * 300)] == [120, 120, 60]


def test_a_number_without_end_is_spoken_in_short_pieces_digit_by_digit() -> None:
    pieces = split_sentences("1234567890" * 110)

    readings = list(read_sentences(Reader(), pieces))

    assert max(len(reading.labels) for reading in readings) <= 120
    # Each of ten digits has two to four phones, and at both ends there is silence.
    assert {len(reading.labels) for reading in readings[:-1]} == {104}


@pytest.mark.parametrize("text", ["あ" * 500, "っ" * 480, "ゃ" * 500, "百万" * 250, "あい" * 250])
def test_what_repeats_itself_is_spoken_in_short_pieces(text: str) -> None:
    readings = list(read_sentences(Reader(), split_sentences(text)))

    assert max(len(reading.labels) for reading in readings) <= 120


@given(st.text(alphabet="あい。、！？.!? \n「」1a", max_size=400))
def test_only_white_space_is_lost(text: str) -> None:
    pieces = split_sentences(text)

    assert re.sub(r"\s", "", "".join(pieces)) == re.sub(r"\s", "", text)
    assert all(1 <= len(piece) <= 120 for piece in pieces)
