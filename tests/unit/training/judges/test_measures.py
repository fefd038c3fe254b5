import numpy as np
from numpy.typing import NDArray

from tools.training.decoder.features import RATE
from tools.training.judges import measures


def tone(hertz: float = 150.0, seconds: float = 1.0) -> NDArray[np.float32]:
    time = np.arange(int(RATE * seconds)) / RATE
    harmonics = [np.sin(2 * np.pi * hertz * k * time) / k for k in range(1, 20)]
    return np.asarray(0.1 * np.sum(harmonics, 0), np.float32)


def test_a_hole_in_voiced_speech_is_a_drop_out_of_its_length() -> None:
    whole = tone(seconds=2.0)
    broken = whole.copy()
    broken[RATE : RATE + RATE // 5] = 0
    said = measures.analyse(whole)
    assert 140 <= measures.longest_dropout_ms(said, measures.analyse(broken)) <= 220
    assert measures.longest_dropout_ms(said, said) == 0
