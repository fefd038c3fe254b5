import numpy as np
from numpy.typing import NDArray

from tools.training.decoder.features import RATE
from tools.training.judges import measures


def tone(hertz: float = 150.0, seconds: float = 1.0) -> NDArray[np.float32]:
    time = np.arange(int(RATE * seconds)) / RATE
    harmonics = [np.sin(2 * np.pi * hertz * k * time) / k for k in range(1, 20)]
    return np.asarray(0.1 * np.sum(harmonics, 0), np.float32)


def test_speech_does_not_differ_from_itself() -> None:
    analysis = measures.analyse(tone())
    assert measures.distortion(analysis, analysis) == 0.0


def test_loudness_does_not_count_as_distortion() -> None:
    quiet, loud = measures.analyse(tone() * 0.3), measures.analyse(tone())
    assert measures.distortion(quiet, loud) < 0.1


def test_another_spectrum_is_a_distortion() -> None:
    bright = np.diff(tone(), prepend=0).astype(np.float32)
    assert measures.distortion(measures.analyse(bright), measures.analyse(tone())) > 3


def test_a_hole_in_voiced_speech_is_a_drop_out_of_its_length() -> None:
    whole = tone(seconds=2.0)
    broken = whole.copy()
    broken[RATE : RATE + RATE // 5] = 0
    found = measures.longest_dropout_ms(measures.analyse(whole), measures.analyse(broken))
    assert 140 <= found <= 220


def test_whole_speech_has_no_drop_out() -> None:
    analysis = measures.analyse(tone())
    assert measures.longest_dropout_ms(analysis, analysis) == 0
