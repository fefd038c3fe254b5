"""A synthetic voice that reads words aloud, as recordings to train a character with."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from tools.training.sources import reader
from tools.training.sources.reader import TimedSpeech

if TYPE_CHECKING:
    from pathlib import Path

    from tools.training.sources.reader import NumberedText

WORDS = ["alpha", "bravo", "charlie", "delta"]


def second(number: int) -> TimedSpeech:
    return TimedSpeech(np.full(16_000, number / 100, np.float32), 16_000, [])


def test_speech_is_written_file_by_file_until_there_is_enough(tmp_path: Path) -> None:
    endless = (second(number) for number in range(1000))

    assert reader.write(endless, tmp_path / "new", minutes=0.05) == 3.0

    files = sorted((tmp_path / "new").iterdir())
    assert [file.name for file in files] == ["0000.wav", "0001.wav", "0002.wav"]
    wave, rate = soundfile.read(files[2])
    assert rate == 16_000
    assert wave == pytest.approx(0.02, abs=1e-4)


def test_the_same_voice_reads_the_same_words_and_skips_what_it_cannot_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def speak(_scratch: Path, orders: list[NumberedText]) -> list[TimedSpeech | None]:
        asked.extend(order.text for order in orders)
        return [None, *(second(number) for number in range(len(orders) - 1))]

    monkeypatch.setattr(reader, "speak_with_festival", speak)
    for _ in range(2):
        assert len(list(islice(reader.read("kal_diphone", WORDS, tmp_path), 9))) == 9

    assert asked[:10] == asked[10:]
    assert {word for text in asked for word in text.split()} == set(WORDS)


def test_a_voice_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        reader, "speak_with_festival", lambda _scratch, orders: [None] * len(orders)
    )

    with pytest.raises(ValueError, match="nobody: expected a voice of flite"):
        next(reader.read("nobody", WORDS, tmp_path))


def test_mei_reads_each_sentence_once() -> None:
    first, second = reader.read_japanese(["おはよう。", "いい天気ですね。"])
    assert first.rate == second.rate == 48_000
    assert len(first.wave) < len(second.wave)
    assert 0.05 < float(np.abs(first.wave).max()) <= 1
