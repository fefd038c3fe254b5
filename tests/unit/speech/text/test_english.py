from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speech.text.english import EnglishReader, read_words
from speech.text.phones.morae import SOUNDS, split_morae

if TYPE_CHECKING:
    from pathlib import Path

    from speech.text.reading import Reader


@pytest.fixture(scope="module")
def english(reader: Reader) -> EnglishReader:
    return EnglishReader(reader, read_words())


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Discordで話す", "ディスコードで話す"),
        ("OpenAIとGitHub", "オープンエーアイとギットハブ"),
        ("don't worry", "ドント ウォリー"),
        ("Bとa", "ビーとア"),
        ("XYZW", "エックスワイゼットダブリュー"),
    ],
)
def test_english_words_are_written_in_katakana(
    text: str, written: str, english: EnglishReader
) -> None:
    assert english.write(text) == written


@pytest.mark.parametrize("text", ["server", "NASAのDVD", "A4の紙", "CO2", "iPhone", "漢字とかな"])
def test_words_in_the_dictionary_keep_their_accent(text: str, english: EnglishReader) -> None:
    assert english.write(text) == text


def test_a_word_of_two_is_read_in_parts(english: EnglishReader) -> None:
    assert english.write("TypeScript") == "タイプスクリプト"


def test_a_word_of_the_list_has_priority_over_every_other(reader: Reader) -> None:
    assert EnglishReader(reader, {"server": "サヴァ"}).write("Server") == "サヴァ"


def test_many_threads_read_alike(english: EnglishReader) -> None:
    words = [f"zorp{letter}ish" for letter in "abcdefghij"] * 3

    with ThreadPoolExecutor(4) as threads:
        written = list(threads.map(english.write, words))

    assert written == [english.write(word) for word in words]


@given(st.text(alphabet="abcxyzABCXYZ'- 1", max_size=60))
@settings(max_examples=60, deadline=None)
def test_no_letter_remains_that_is_not_in_the_dictionary(english: EnglishReader, text: str) -> None:
    written = english.write(text)

    for word in re.findall("[A-Za-z]+[0-9]*", written):
        assert english.write(word) == word


@pytest.mark.parametrize("katakana", sorted(set(read_words().values())))
def test_the_list_contains_only_katakana(katakana: str) -> None:
    assert all(mora in SOUNDS or mora == "ー" for mora in split_morae(katakana))


def test_a_list_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("mei\tメイ\n\n", "utf-8")

    assert read_words(path) == {"mei": "メイ"}
