"""A synthetic voice that reads words aloud, as recordings to train a character with."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tools.training.sources import reader


def test_speech_is_written_file_by_file_until_there_is_enough(tmp_path: Path) -> None:
    endless = ((np.full(16_000, number / 100, np.float32), 16_000) for number in range(1000))

    assert reader.write(endless, tmp_path / "new", minutes=0.05) == 3.0

    files = sorted((tmp_path / "new").iterdir())
    assert [file.name for file in files] == ["0000.wav", "0001.wav", "0002.wav"]
    wave, rate = soundfile.read(files[2])
    assert rate == 16_000
    assert wave == pytest.approx(0.02, abs=1e-4)


def test_the_same_voice_reads_the_same_words_at_the_pitch_that_is_asked_for() -> None:
    register = reader.Register(105, 155, 30)
    first, again = (
        next(reader.read_english("kal16", ["alpha", "bravo", "charlie"], register))
        for _ in range(2)
    )
    assert first[1] == 16_000
    assert np.array_equal(first[0], again[0])
    (usual,) = islice(reader.read_english("kal16", ["alpha", "bravo", "charlie"]), 1)
    assert not np.array_equal(first[0], usual[0])


def test_mei_reads_each_sentence_once() -> None:
    (first, rate), (second, _) = reader.read_japanese(["おはよう。", "いい天気ですね。"])
    assert rate == 48_000
    assert len(first) < len(second)
    assert 0.05 < float(np.abs(first).max()) <= 1
