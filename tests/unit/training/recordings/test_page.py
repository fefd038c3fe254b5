"""The page on which an owner compares by ear."""

import json
from pathlib import Path

import numpy as np

from training.recordings.results.judgement import Clip, Figures, Judgement
from training.recordings.results.owners_card import write_owners_card
from training.recordings.results.page import write_page, write_samples
from training.sound.features import Floats

RATE = 16_000


def test_the_page_says_what_its_rows_and_columns_are(tmp_path: Path) -> None:
    wave = np.sin(np.arange(RATE) / 20).astype(np.float32)
    own, stranger = Clip("mine", wave, wave, wave), Clip("theirs", wave, None, wave)
    judgement = Judgement(Figures(), Figures(), [own] * 4, [stranger] * 2)

    assert len(write_samples(tmp_path, judgement)) == 6
    page = write_page(tmp_path, "Ada", judgement).read_text()

    before, _, others = page.partition("Other people, whom the character has never heard")
    _, _, yours = before.partition("Your recordings that were not trained on")
    assert (yours.count(">mine<"), others.count(">theirs<")) == (4, 2)
    for column in ("as recorded", "synthesis alone", "converted"):
        assert f"<dt>{column}<dd>" in page
    pictures = [(tmp_path / f"sample-{number}.png").is_file() for number in range(1, 7)]
    assert all(pictures)


def test_the_owners_card_has_figures_words_and_pairs(tmp_path: Path) -> None:
    wave, other = (np.sin(np.arange(RATE) / by).astype(np.float32) for by in (20, 30))
    own, stranger = Clip("mine", wave, wave, wave), Clip("theirs", wave, None, other)
    owner = Figures({"after": [0.8, 0.9], "before": [0.97]})
    judgement = Judgement(owner, Figures(), [own] * 5, [stranger] * 2)

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
