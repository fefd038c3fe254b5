from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from speech.engines.rvc.filters import high_pass

if TYPE_CHECKING:
    from numpy.typing import NDArray

RATE = 16_000
# scipy.signal.filtfilt(*scipy.signal.butter(5, 48, "high", fs=16000), x) of SciPy 1.17, every so
# many samples, for x[n] = cos(0.02 n) + 0.3 sin(1.1 n) + 0.25.
REFERENCE = {
    19: (6, [-0.030114528, 0.014683708, 0.030984402, 0.010363744]),
    160: (40, [0.095384940, 0.111720640, -0.025101815, 0.012642740]),
    1_000: (200, [0.389000395, -0.394674203, -0.009873217, 0.541316864, -0.282415733]),
    48_000: (
        9_000,
        [0.389165331, -0.609069821, 0.115432776, 0.430453146, -0.607098536, 0.305261952],
    ),
}


def signal(length: int) -> NDArray[np.float64]:
    at = np.arange(length)
    wave: NDArray[np.float64] = np.cos(0.02 * at) + 0.3 * np.sin(1.1 * at) + 0.25
    return wave


@pytest.mark.parametrize("length", REFERENCE)
def test_a_filtered_signal_is_scipys(length: int) -> None:
    step, expected = REFERENCE[length]

    filtered = high_pass(signal(length))

    assert len(filtered) == length
    np.testing.assert_allclose(filtered[::step], expected, rtol=0, atol=1e-6)


def test_an_offset_is_removed() -> None:
    assert np.abs(high_pass(np.full(1_000, 0.4, np.float32))).max() < 1e-12


def test_speech_frequencies_pass_without_delay() -> None:
    tone = np.sin(2 * np.pi * 200 * np.arange(RATE) / RATE)

    np.testing.assert_allclose(high_pass(tone)[2_000:-2_000], tone[2_000:-2_000], atol=2e-3)


def test_hum_of_ten_hertz_is_gone() -> None:
    hum = np.sin(2 * np.pi * 10 * np.arange(RATE) / RATE)

    assert np.abs(high_pass(hum)[4_000:-4_000]).max() < 1e-4


@pytest.mark.parametrize("length", [0, 1, 2, 18])
def test_a_recording_shorter_than_the_edges_keeps_its_length(length: int) -> None:
    filtered = high_pass(signal(length))

    assert filtered.shape == (length,)
    assert np.isfinite(filtered).all()
