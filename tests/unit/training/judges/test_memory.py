"""A judgement that was stopped goes on where it was."""

from pathlib import Path

import numpy as np

from training.judges.memory import Memory, RememberedNaturalness
from training.sound.features import Floats


class Judge:
    def __init__(self) -> None:
        self.asked = 0

    def judge(self, wave: Floats) -> dict[str, float]:
        self.asked += 1
        return {"overall": float(wave.mean())}


def test_a_judge_is_asked_once_about_each_recording(tmp_path: Path) -> None:
    file, judge = tmp_path / "said.jsonl", Judge()
    one, other = np.ones(160, np.float32), np.zeros(160, np.float32)
    first = RememberedNaturalness("A", judge, Memory(file))
    assert [first.judge(wave)["overall"] for wave in (one, other, one)] == [1, 0, 1]
    with file.open("a") as lines:
        lines.write('\n["A cut o')  # the process was ended while it wrote
    again = RememberedNaturalness("A", judge, Memory(file))
    assert [again.judge(wave)["overall"] for wave in (one, other)] == [1, 0]
    assert judge.asked == 2
    assert again.judge(2 * one) == {"overall": 2}
    assert RememberedNaturalness("B", judge, Memory(file)).judge(one) == {"overall": 1}
    assert judge.asked == 4
