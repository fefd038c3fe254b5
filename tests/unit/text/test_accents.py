import random
import re
from typing import Any

import pyopenjtalk
import pytest

from shared.speech.text.accents import (
    AccentPhrase,
    Mora,
    accent_phrases,
    labels_of,
    phonemes_of,
)
from shared.speech.text.front_end import Reader
from shared.speech.text.normalisation import normalise
from shared.speech.text.phonemes import SOUNDS, phonemes
from tests.support.golden_speech import SENTENCES

PHONE = re.compile(r"-([^+]+)\+.*/A:([^/]+)/.*/F:(\w+_\w+)#")


def read(reader: Reader, text: str) -> list[AccentPhrase]:
    return accent_phrases(reader.read(normalise(text)))


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
    phrases = read(reader, text)

    shown = [("".join(mora.kana for mora in each.morae), each.accent) for each in phrases]
    assert shown == expected
    assert [each.is_question for each in phrases] == ["?" in kana for kana, _ in expected]


SAME_TONES = [sentence for sentence in SENTENCES if sentence["index"] != 18]


@pytest.mark.parametrize("sentence", SAME_TONES, ids=lambda sentence: str(sentence["index"]))
def test_accents_give_the_tones_and_labels_that_they_were_found_in(
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
    "text", ["お会計は1,234円になります。", "学校へ行く？", "あっ、菊です！", "東京特許許可局"]
)
def test_labels_made_of_phrases_are_those_of_the_text(text: str, reader: Reader) -> None:
    reading = reader.read(normalise(text))

    made = labels_of(accent_phrases(reading))

    assert [PHONE.findall(label) for label in made] == [
        PHONE.findall(label) for label in reading.labels
    ]


SIGNS = "ーーーーアイカンっッァゃ、。？！゛・…々ヶ漢字山川0２aZ'-() ☆②ｱﾞゐヴヸ゙ゎ~"


def test_what_cannot_be_spoken_writes_nothing_to_the_log(
    reader: Reader, capfd: pytest.CaptureFixture[str]
) -> None:
    for text in ("ー" * 50, "あ、ーーー。ーー", "？！あ", "゛゛゛"):
        reader.read(text)
    question = Mora("?", None)
    assert labels_of([AccentPhrase((question,), 1)]) == ()
    assert labels_of([AccentPhrase((question, question, Mora("ア", SOUNDS["ア"])), 1)])

    assert capfd.readouterr().err == ""


def test_the_labels_are_those_that_open_jtalk_makes_itself(reader: Reader) -> None:
    chance = random.Random(28)  # noqa: S311 - nothing secret
    for _ in range(300):
        text = "".join(chance.choices(SIGNS, k=chance.randint(1, 14)))
        features = pyopenjtalk.run_frontend(text)
        made = pyopenjtalk.make_label(features) if features else []

        assert reader.read(text).labels == tuple(made), text
