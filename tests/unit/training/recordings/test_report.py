"""What is told about a training, from figures that are given."""

import numpy as np
import pytest

from training.recordings.choosing.screening import Dropped, Utterance
from training.recordings.choosing.selection import Selection
from training.recordings.results.judgement import Clip, Figures, Judgement, join
from training.recordings.results.report import selection_lines, summary, tables

RATE = 16_000


def judgement() -> Judgement:
    owner, strangers = Figures(), Figures()
    owner.add(before=0.93, after=0.88, synthesis=0.9, distortion=5.4, synthesis_distortion=3.3)
    owner.add(before=0.95, after=0.9, melody=0.99)
    strangers.add(before=0.54, after=0.78, left=0.6, melody=0.98)
    wave = np.zeros(RATE, np.float32)
    return Judgement(
        owner, strangers, [Clip("own", wave, wave, wave)], [Clip("x", wave, None, wave)]
    )


def test_a_figure_stands_beside_what_was_reachable() -> None:
    text = tables(judgement())
    assert "| 0.89 | 0.94 as recorded, 0.90 by the synthesis alone |" in text
    assert "| 5.40 dB | 3.30 dB by the synthesis alone |" in text
    assert "strangers 0.54 -> 0.78" in summary(judgement())


def test_without_strangers_nothing_is_said_about_them() -> None:
    alone = Judgement(judgement().owner, Figures(), judgement().owner_clips, [])
    assert "strangers" not in tables(alone) + summary(alone)


def test_only_the_longest_parts_that_are_left_out_are_told() -> None:
    dropped = [Dropped(f"{n}.wav", 0.0, n / 10, "noise") for n in range(1, 12)]
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
