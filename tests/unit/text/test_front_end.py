import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.speech.text.front_end import (
    EnglishReader,
    Reader,
    Reading,
    read_sentences,
    read_words,
    split_sentences,
)
from shared.speech.text.phonemes import SOUNDS, split_morae


@pytest.fixture(scope="module")
def english(reader: Reader) -> EnglishReader:
    return EnglishReader(reader, read_words())


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Discordで話す", "ディスコードで話す"),
        ("OpenAIとGitHub", "オープンエーアイとギットハブ"),
        ("TypeScript", "タイプスクリプト"),
        ("don't worry", "ドント ウォリー"),
        ("Bとa", "ビーとア"),
        ("XYZW", "エックスワイゼットダブリュー"),
        # Words in the dictionary keep their accent.
        ("server, NASAのDVD", "server, NASAのDVD"),
        ("A4の紙, CO2, iPhone", "A4の紙, CO2, iPhone"),
        ("漢字とかな", "漢字とかな"),
    ],
)
def test_english_words_are_written_in_katakana(
    text: str, written: str, english: EnglishReader
) -> None:
    assert english.write(text) == written


def test_the_list_is_read_from_a_file_and_has_priority_over_the_dictionary(
    tmp_path: Path, reader: Reader
) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("server\tサヴァ\n\n", "utf-8")

    assert EnglishReader(reader, read_words(path)).write("Server") == "サヴァ"
    for katakana in set(read_words().values()):
        assert all(mora in SOUNDS or mora == "ー" for mora in split_morae(katakana)), katakana


def test_a_run_of_letters_is_spelled_without_a_search_for_it_as_a_word(reader: Reader) -> None:
    # Open JTalk took 18 s for one of 2,000 letters.
    class NotedReader:
        longest = 0

        def read(self, text: str) -> Reading:
            self.longest = max(self.longest, len(text))
            return reader.read(text)

    noted = NotedReader()

    written = EnglishReader(noted, read_words()).write("x" * 300)

    assert written == "エックス" * 300
    assert noted.longest <= 40


def test_many_threads_read_alike(english: EnglishReader) -> None:
    words = [f"zorp{letter}ish" for letter in "abcdefghij"] * 3

    with ThreadPoolExecutor(4) as threads:
        written = list(threads.map(english.write, words))

    assert written == [english.write(word) for word in words]


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
        ("あ" * 70 + "、" + "い" * 70 + "。", ["あ" * 70 + "、", "い" * 70 + "。"]),
        ("あ" * 300, ["あ" * 120, "あ" * 120, "あ" * 60]),
    ],
)
def test_a_text_is_cut_after_its_sentences(text: str, pieces: list[str]) -> None:
    assert split_sentences(text) == pieces


def test_a_number_without_end_is_spoken_in_short_pieces_digit_by_digit() -> None:
    pieces = split_sentences("1234567890" * 110)

    readings = list(read_sentences(Reader(), pieces))

    assert max(len(reading.labels) for reading in readings) <= 120
    # Each of ten digits has two to four phones, and at both ends there is silence.
    assert {len(reading.labels) for reading in readings[:-1]} == {104}


@pytest.mark.parametrize("text", ["あ" * 500, "っ" * 480, "ゃ" * 500, "百万" * 250, "あい" * 250])
def test_what_repeats_itself_is_spoken_in_short_pieces(text: str) -> None:
    readings = list(read_sentences(Reader(), split_sentences(text)))

    # Others wait for a piece: no longer than for a usual sentence.
    assert max(len(reading.labels) for reading in readings) <= 40


@given(st.text(alphabet="あい。、！？.!? \n「」1a", max_size=400))
def test_only_white_space_is_lost(text: str) -> None:
    pieces = split_sentences(text)

    assert re.sub(r"\s", "", "".join(pieces)) == re.sub(r"\s", "", text)
    assert all(1 <= len(piece) <= 120 for piece in pieces)
