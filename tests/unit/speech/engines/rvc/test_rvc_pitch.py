from __future__ import annotations

import numpy as np
import pytest

from speech.engines.rvc.pitch.tracks import contour, fill_unvoiced, shift


def hertz(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_the_coarse_numbers_run_from_1_to_255_on_the_mel_scale() -> None:
    mels = np.linspace(1127 * np.log(1 + 50 / 700), 1127 * np.log(1 + 1100 / 700), 255)
    frequencies = 700 * (np.exp(mels / 1127) - 1)

    coarse = contour(frequencies.astype(np.float32)).coarse

    assert coarse.tolist() == list(range(1, 256))
    assert coarse.dtype == np.int64


def test_unvoiced_and_out_of_range_frames_get_the_nearest_number() -> None:
    assert contour(hertz(0, 20, 2_000)).coarse.tolist() == [1, 1, 255]


def test_the_contour_keeps_its_hertz() -> None:
    assert contour(hertz(0, 123.4)).hertz.tolist() == hertz(0, 123.4).tolist()


def test_a_piece_of_a_contour_keeps_both_of_its_parts() -> None:
    piece = contour(hertz(0, 50, 1_100, 0)).cut(1, 3)

    assert piece.hertz.tolist() == [50, 1_100]
    assert piece.coarse.tolist() == [1, 255]


@pytest.mark.parametrize(("semitones", "factor"), [(12, 2.0), (-12, 0.5), (0, 1.0)])
def test_a_shift_multiplies_voiced_frames(semitones: float, factor: float) -> None:
    assert shift(hertz(0, 100), semitones).tolist() == [0, 100 * factor]


def test_unvoiced_frames_get_a_frequency_between_their_neighbours() -> None:
    filled = fill_unvoiced(hertz(0, 100, 0, 0, 130, 0))

    assert filled.tolist() == [100, 100, 110, 120, 130, 130]
    assert filled.dtype == np.float32


def test_a_recording_without_voice_stays_unvoiced() -> None:
    assert fill_unvoiced(hertz(0, 0)).tolist() == [0, 0]
