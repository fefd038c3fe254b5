from pathlib import Path
from typing import Any

import pytest

from shared.speech.text.dictionary import (
    WordError,
    WordType,
    WrittenWords,
    compile_dictionary,
    make_word,
)
from shared.speech.text.front_end import Reader


def reader_of(folder: Path, *words: Any) -> Reader:
    return Reader(compile_dictionary([make_word(*word) for word in words], folder))


def readings(reader: Reader, text: str) -> list[str]:
    return [word.reading for word in reader.read(text).words]


def test_a_word_is_read_as_the_user_defined_it(tmp_path: Path) -> None:
    reader = reader_of(
        tmp_path,
        ("Vtuber", "ブイチューバー", 3),
        ("推し活", "おしかつ", 0, WordType.COMMON_NOUN),
        ("ばえる", "バエル", 2, WordType.VERB),
        ("えもい", "エモイ", 2, WordType.ADJECTIVE),
        ("たそ", "タソ", 1, WordType.SUFFIX),
        ('a,b"c', "エービーシー", 1, WordType.PROPER_NOUN, 10),
        ("ぱそこ", "パソコ", 2, WordType.COMMON_NOUN, 10),
    )

    assert readings(reader, "Vtuberの推し活") == ["ブイチューバー", "ノ", "オシカツ"]
    for word, reading in (("ばえる", "バエル"), ("えもい", "エモイ"), ('a,b"c', "エービーシー")):
        assert readings(reader, word) == [reading]
    assert any("/F:3_2#" in label for label in reader.read("ぱそこ").labels)
    assert compile_dictionary([], tmp_path) is None


def test_a_word_of_high_priority_overrides_the_dictionary(tmp_path: Path) -> None:
    word = ("私の猫", "ワタシノニャンコ", 4)

    high = reader_of(tmp_path, (*word, WordType.PROPER_NOUN, 10))

    assert readings(high, "私の猫") == ["ワタシノニャンコ"]
    assert readings(Reader(), "私の猫") == ["ワタシ", "ノ", "ネコ"]


@pytest.mark.parametrize(
    ("surface", "text", "read"),
    [
        ("😀", "うれしい😀ね", "うれしいヨミね"),
        ("a,b", "a,bとａ，ｂ", "ヨミとヨミ"),
        ("hello world", "hello worldは", "ヨミは"),
        ("hello world", "othello worlds", "othello worlds"),
        ("山﨑", "山﨑と山崎", "ヨミと山崎"),
        ("C++", "C++とC", "ヨミとC"),
        ("①", "①と②", "ヨミと②"),
        ("墸", "墸です", "ヨミです"),
        ("卍丸", "卍丸です", "卍丸です"),
        ("Vtuber", "Vtuberです", "Vtuberです"),
        ("www", "wwwとawww", "ヨミとawww"),
        ("ﾊﾛｰ", "ﾊﾛｰです", "ヨミです"),
        ("B2B", "B2BとAB2B", "ヨミとAB2B"),
        ("CO₂", "CO₂とCO2", "ヨミとヨミ"),
        ("-3℃", "今-3℃", "今ヨミ"),
    ],
)
def test_a_word_that_writing_out_would_change_is_read_all_the_same(
    surface: str, text: str, read: str
) -> None:
    words = [make_word(surface, "ヨミ", 1), make_word("他", "ホカ", 1)]

    assert WrittenWords(words).put_into(text) == read


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (("", "ア", 0), "surface: expected 1 to 100 visible characters"),
        (("a\nb", "ア", 0), "surface: expected"),
        (("x" * 101, "ア", 0), "surface: expected"),
        (("x", "", 0), "pronunciation: expected katakana"),
        (("x", "ーア", 0), "pronunciation: expected katakana"),
        (("x", "ア,イ", 0), "pronunciation: expected katakana"),
        (("x", "アイ", 3), "accent_type: expected 0 to 2, found 3"),
        (("x", "アイ", -1), "accent_type: expected 0 to 2"),
        (("x", "ア", 0, WordType.SUFFIX, 11), "priority: expected 0 to 10"),
    ],
)
def test_a_word_that_is_not_as_it_must_be_is_refused(word: Any, sentence: str) -> None:
    with pytest.raises(WordError, match=sentence):
        make_word(*word)
