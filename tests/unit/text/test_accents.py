from __future__ import annotations

import random
import re
from typing import Any

import pyopenjtalk
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.speech.text.accents import (
    AccentPhrase,
    Mora,
    accent_phrases,
    align,
    labels_of,
    mora_of,
    phonemes_of,
)
from shared.speech.text.front_end import Reader, Reading
from shared.speech.text.normalisation import normalise
from shared.speech.text.phonemes import SOUNDS, phonemes
from tests.support.golden_speech import SENTENCES

PHONE = re.compile(r"-([^+]+)\+.*/A:([^/]+)/.*/F:(\w+_\w+)#")


def read(reader: Reader, text: str) -> list[AccentPhrase]:
    return accent_phrases(reader.read(normalise(text)))


def shown(phrases: list[AccentPhrase]) -> list[tuple[str, int]]:
    return [("".join(mora.kana for mora in phrase.morae), phrase.accent) for phrase in phrases]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("こんにちは、世界。", [("コンニチワ,", 5), ("セカイ.", 1)]),
        ("コーヒーを飲む？", [("コオヒイヲ", 3), ("ノム?", 1)]),
        ("…なるほど", [("...", 1), ("ナルホド", 4)]),
        ("！？", [("!?", 1)]),
    ],
)
def test_a_text_is_divided_where_its_accents_are(
    text: str, expected: list[tuple[str, int]], reader: Reader
) -> None:
    assert shown(read(reader, text)) == expected


def test_devoiced_vowels_are_recognised(reader: Reader) -> None:
    (phrase,) = read(reader, "菊です")

    assert [mora.is_devoiced for mora in phrase.morae] == [True, False, False, True]


def test_a_question_is_recognised_by_its_mark(reader: Reader) -> None:
    assert [phrase.is_question for phrase in read(reader, "行く？行く。")] == [True, False]


SAME_TONES = [sentence for sentence in SENTENCES if sentence["index"] != 18]


@pytest.mark.parametrize("sentence", SAME_TONES, ids=lambda sentence: str(sentence["index"]))
def test_accents_give_the_tones_that_they_were_found_in(
    sentence: dict[str, Any], reader: Reader
) -> None:
    reading = reader.read(normalise(sentence["text"]))

    assert phonemes_of(accent_phrases(reading), phonemes(reading)) == phonemes(reading)


def test_a_changed_accent_changes_the_tones(reader: Reader) -> None:
    reading = reader.read("橋")
    (phrase,) = accent_phrases(reading)

    changed = phonemes_of([AccentPhrase(phrase.morae, 1)], phonemes(reading))

    assert changed.tones == (0, 1, 1, 0, 0, 0)


def test_phrases_without_a_text_are_their_own(reader: Reader) -> None:
    found = phonemes_of(read(reader, "ヴァカは、無茶"))

    assert found.text == "ヴぁかわ,むちゃ"
    assert sum(found.word2ph) == len(found.phones)
    assert len(found.word2ph) == len(found.text) + 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("_aSita_", (1, 2, 3, 1)),
        ("_asu_", (1, 2, 1, 1)),
        ("_aSitabe_", (1, 2, 5, 1)),
        ("_oSita_", (1, 2, 3, 1)),
        ("_kaSita_", (1, 3, 3, 1)),
        ("__", (1, 0, 0, 1)),
    ],
)
def test_other_phones_are_dealt_to_the_characters_that_they_stand_in_for(
    given: str, expected: tuple[int, ...]
) -> None:
    assert align((1, 2, 3, 1), "_aSita_", given) == expected


def test_phones_of_a_text_that_had_none_go_to_its_first_character() -> None:
    assert align((1, 0, 0, 1), "__", "_aSita_") == (1, 5, 0, 1)


@pytest.mark.parametrize(
    "text", ["お会計は1,234円になります。", "学校へ行く？", "あっ、菊！", "東京特許許可局"]
)
def test_labels_made_of_phrases_are_those_of_the_text(text: str, reader: Reader) -> None:
    reading = reader.read(normalise(text))

    made = labels_of(accent_phrases(reading))

    assert [found_in(label) for label in made] == [found_in(label) for label in reading.labels]


def found_in(label: str) -> tuple[str, ...] | None:
    found = PHONE.search(label)
    return found.groups() if found else None


def test_signs_alone_have_no_labels() -> None:
    comma = mora_of(",")
    assert comma is not None

    assert labels_of([AccentPhrase((comma,), 1)]) == ()


@given(st.text(max_size=40))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_can_be_divided(text: str) -> None:
    reading: Reading = READER.read(normalise(text))

    phrases = accent_phrases(reading)
    found = phonemes_of(phrases, phonemes(reading))

    assert all(1 <= phrase.accent <= len(phrase.morae) for phrase in phrases)
    assert sum(found.word2ph) == len(found.phones) == len(found.tones)


READER = Reader()


SIGNS = "ーーーーアイカンっッァゃ、。？！゛・…々ヶ漢字山川0２aZ'-() ☆②ｱﾞゐヴヸ゙ゎ~"


@pytest.mark.parametrize("text", ["ー" * 50, "あ、ーーー。ーー", "？！あ", "゛゛゛", "、ー、ー"])
def test_what_cannot_be_spoken_writes_nothing_to_the_log(
    reader: Reader, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    reader.read(text)

    assert capfd.readouterr().err == ""


def test_phrases_that_begin_with_a_sign_write_nothing_to_the_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    phrase = AccentPhrase((Mora("?", None), Mora("?", None), Mora("ア", SOUNDS["ア"])), 1)

    assert labels_of([phrase])
    assert capfd.readouterr().err == ""


def test_the_labels_are_those_that_open_jtalk_makes_itself(reader: Reader) -> None:
    chance = random.Random(28)  # noqa: S311 - nothing secret
    for _ in range(500):
        text = "".join(chance.choices(SIGNS, k=chance.randint(1, 14)))
        features = pyopenjtalk.run_frontend(text)
        made = pyopenjtalk.make_label(features) if features else []

        assert reader.read(text).labels == tuple(made), text
