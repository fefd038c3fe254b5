"""The page on which an owner compares by ear."""

from pathlib import Path

import numpy as np

from training.recordings.results.judgement import Clip, Figures, Judgement
from training.recordings.results.page import write_page, write_samples

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
