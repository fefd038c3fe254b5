"""What is told about a training, from figures that are given."""

import json
from pathlib import Path

import numpy as np
import pytest

from tools.training.decoder.features import Floats
from tools.training.judges.judgement import Figures
from tools.training.recordings.comparison import ComparedClip, Comparison, join
from tools.training.recordings.report import (
    selection_lines,
    summary,
    tables,
    write_owners_card,
    write_page,
)
from tools.training.recordings.selection import Selection
from tools.training.recordings.usable_speech import DroppedSpeech, Utterance

RATE = 16_000


def judgement() -> Comparison:
    owner, strangers = Figures(), Figures()
    owner.add(before=0.93, after=0.88, synthesis=0.9)
    owner.add(before=0.95, after=0.9, melody=0.99)
    strangers.add(before=0.54, after=0.78, left=0.6, melody=0.98)
    wave = np.zeros(RATE, np.float32)
    return Comparison(
        owner,
        strangers,
        [ComparedClip("own", wave, wave, wave)],
        [ComparedClip("x", wave, None, wave)],
    )


def test_a_figure_stands_beside_what_was_reachable_and_strangers_only_if_there_are_any() -> None:
    text = tables(judgement())
    assert "| 0.89 | 0.94 as recorded, 0.90 by the synthesis alone |" in text
    assert "strangers 0.54 -> 0.78" in summary(judgement())
    alone = Comparison(judgement().owner, Figures(), judgement().owner_clips, [])
    assert "strangers" not in tables(alone) + summary(alone)


def test_only_the_longest_parts_that_are_left_out_are_told() -> None:
    dropped = [DroppedSpeech(f"{n}.wav", 0.0, n / 10, "noise") for n in range(1, 12)]
    lines = selection_lines(Selection([], dropped, {"x.mp3": "it is broken"}, ["late.wav"]))
    assert "  11.wav 0:00-0:01: noise" in lines
    assert "  and 3 shorter parts" in lines
    assert "not readable: x.mp3: it is broken" in lines
    assert "not needed: the last 1 files" in lines


@pytest.mark.parametrize(("seconds", "clips"), [([1.0] * 14, 3), ([1.0] * 7, 1), ([9.0], 1)])
def test_short_utterances_are_joined_until_a_voice_can_be_told(
    seconds: list[float], clips: int
) -> None:
    utterances = [Utterance("a", 0.0, np.ones(round(s * RATE), np.float32), RATE) for s in seconds]
    assert len(join(utterances)) == clips


def test_the_page_holds_recordings_of_the_owner_and_of_others(tmp_path: Path) -> None:
    wave = np.sin(np.arange(RATE) / 20).astype(np.float32)
    own, stranger = ComparedClip("mine", wave, wave, wave), ComparedClip("theirs", wave, None, wave)
    judgement = Comparison(Figures(), Figures(), [own] * 4, [stranger] * 2)

    page = write_page(tmp_path, "Ada", judgement).read_text()

    own_part, _, others = page.partition("Other people, whom the character has never heard")
    assert (own_part.count(">mine<"), others.count(">theirs<")) == (3, 2)
    assert page.count("<audio") == 3 * 3 + 2 * 2


def test_the_owners_card_has_figures_words_and_pairs(tmp_path: Path) -> None:
    wave, other = (np.sin(np.arange(RATE) / by).astype(np.float32) for by in (20, 30))
    own, stranger = (
        ComparedClip("mine", wave, wave, wave),
        ComparedClip("theirs", wave, None, other),
    )
    owner = Figures({"after": [0.8, 0.9], "before": [0.97]})
    judgement = Comparison(owner, Figures(), [own] * 5, [stranger] * 2)

    class Hearing:
        def understand(self, heard: Floats, _language: str) -> str:
            return "one two three" if heard is wave else "one too three"

    write_owners_card(tmp_path, 200.04, {"another voice": 12.04}, judgement, Hearing())

    card = json.loads((tmp_path / "card.json").read_text())
    assert card["likeness"] == {"converted": 0.85, "recorded": 0.97, "reachable": None}
    assert card["unused"] == {"another_voice": 12.0}
    assert (card["seconds"], card["words"]) == (200.0, {"wrong": 2, "of": 6})
    assert len(list(tmp_path.glob("own-*.wav"))) == 6
    assert len(list(tmp_path.glob("other-*.wav"))) == 4
    write_owners_card(tmp_path, 200.04, {}, judgement, None)
    assert json.loads((tmp_path / "card.json").read_text())["words"] is None
