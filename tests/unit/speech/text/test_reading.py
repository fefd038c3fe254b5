from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyopenjtalk
import pytest

from speech.text.phones.accents import AccentPhrase, Mora
from speech.text.phones.labels import labels_of
from speech.text.phones.morae import SOUNDS

if TYPE_CHECKING:
    from speech.text.reading import Reader

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
