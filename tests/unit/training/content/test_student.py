"""The shared encoder learns to hear in windows, and becomes a part of a character's graph."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from shared.characters.manifest import read_manifest
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from tests.unit.training.conftest import CHARACTERS, copy_bundle
from tools.training.content.encoder import CHANNELS, read_encoder
from tools.training.content.graphs import CONTENT_STREAM, STREAM, TAUGHT, make_live, write_hearing
from tools.training.content.shared_encoder import SharedEncoder, encoder_of
from tools.training.content.student import EncoderLesson, StudentTraining, lessons_of, teach
from tools.training.content.window import (
    PAST,
    WindowEar,
    WindowedEncoder,
    attend,
    decades,
    find_telling,
    mel_power,
    positions_of,
    scale_mel,
    through,
    without_mean,
)

SPEECH = sorted((CHARACTERS.parent / "tools" / "training" / "people" / "heard").glob("*.opus"))[:2]
ENCODER = encoder_of(CHARACTERS / "hina")


@pytest.fixture(scope="module")
def lessons() -> list[EncoderLesson]:
    return list(lessons_of(SPEECH, SharedEncoder(ENCODER)))


def windowed() -> WindowedEncoder:
    return WindowedEncoder(read_encoder(ENCODER))


def test_a_lesson_has_speech_and_what_is_heard_in_all_of_it(lessons: list[EncoderLesson]) -> None:
    assert len(lessons) == len(SPEECH)
    for lesson in lessons:
        steps = len(lesson.heard)
        assert 400 < steps < 600
        assert lesson.heard.shape == (steps, CHANNELS)
        assert lesson.wave.shape == (320 * steps,)
        assert 0.5 < lesson.telling.mean() < 1


def test_the_encoder_is_read_out_of_its_graph(lessons: list[EncoderLesson]) -> None:
    wave = torch.from_numpy(lessons[0].wave[None, : 320 * 100] / np.float32(65_536))
    with torch.no_grad():
        found = read_encoder(ENCODER)(wave)[0].numpy()
    wanted = SharedEncoder(ENCODER).listen(wave[0].numpy() / float(wave.abs().max()) * 0.5)
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


def test_an_encoder_learns_and_goes_on_where_it_was_stopped(
    lessons: list[EncoderLesson], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.training.content.student._KEEP_EVERY", 2)
    monkeypatch.setattr("tools.training.content.student._WARM_UP", 2)
    teaching, progress = StudentTraining(lessons, windowed(), 3), tmp_path / "progress.pt"

    def unexplained(encoder: WindowedEncoder) -> float:
        with torch.no_grad():
            return float(np.mean([teaching.loss(encoder, 1_000_000 + one)[1] for one in range(2)]))

    before = unexplained(windowed())
    teach(windowed(), teaching, 4, progress)
    resumed = teach(windowed(), teaching, 8, progress)

    assert torch.load(progress, weights_only=True)["step"] == 8
    assert unexplained(resumed) < 0.95 * before
    resumed.store(tmp_path / "window.npz")
    assert unexplained(windowed().load(tmp_path / "window.npz")) < 0.95 * before


def test_windows_that_follow_each_other_hear_what_one_run_over_all_of_them_hears() -> None:
    """Each window's steps after those that are spoken are heard again in the next one."""
    spoken, ahead, windows = 8, 4, 14  # frames
    encoder = windowed().load(TAUGHT).merge()
    ear = WindowEar(encoder, spoken, ahead)
    random = torch.Generator().manual_seed(1)
    wave = torch.randn(1, 160 * (spoken * windows + ahead + 2), generator=random) * 0.1
    kept = ear.state()
    power = mel_power(encoder.mel, wave)[0]
    steps, new = (spoken + ahead) // 2, spoken // 2
    with torch.no_grad():
        found, mels, level = [], [], torch.tensor(0.1)
        for number in range(windows):
            begin = spoken * number
            end = begin + spoken + ahead
            found.append(ear.hear(wave[:, 160 * begin : 160 * (end + 2)], kept)[0, :, :spoken])
            level = torch.maximum(level, power[:end].max())
            before = power[begin - 2 : begin] if begin else torch.zeros(2, 80)
            mel = torch.cat([before, power[begin:end], power[end - 1 : end]])
            mels.append(scale_mel(decades(mel), decades(level)))
        mel = torch.stack(mels)
        network = encoder.network
        x = through(network.narrow_in_time, through(network.entry, mel.transpose(1, 2)))
        window = torch.arange(windows).repeat_interleave(steps)
        number = window * new + torch.arange(steps).repeat(windows)
        x = (x.transpose(1, 2).flatten(0, 1) + positions_of(number))[None]
        is_final = number < (window + 1) * new
        recent = number >= window[:, None] * new - PAST
        attended = (window == window[:, None]) | (is_final & (window < window[:, None]) & recent)
        for block in network.blocks:
            x, _ = attend(block, x, torch.where(attended, 0.0, -1e4), None)
        heard = network.projection(network.end(x))[0].unflatten(0, (windows, steps))
        told = torch.cat([heard, torch.ones(windows, steps, 1)], 2)
        told = told * find_telling(mel[:, 2:-1])
        total = told[:, :new].sum(1).cumsum(0) + told[:, new:].sum(1)
        content = without_mean(heard, total[:, None])

    assert windows * new < PAST or float(kept["steps"]) > PAST
    wanted = content[:, :new].flatten(0, 1)
    apart = (torch.cat(found, 1).T[::2] - wanted).abs().max()
    assert float(apart) < 1e-3 * float(wanted.abs().max())


@pytest.mark.filterwarnings("ignore")  # the exporter warns of its own deprecations
def test_a_character_gets_what_it_is_heard_with_while_somebody_speaks(tmp_path: Path) -> None:
    bundle = copy_bundle("mei", tmp_path)
    (tmp_path / "encoders").unlink()  # as it gets one more
    shutil.copytree(CHARACTERS / "encoders", tmp_path / "encoders")

    digest = write_hearing(bundle)
    make_live(bundle, digest)

    assert {CONTENT_STREAM, STREAM} <= set(read_manifest(bundle).graphs)
    assert (bundle / f"{STREAM}.onnx").stat().st_size < 200_000
    engine = build_engine(load_character(bundle, ENGINES), SessionSettings(threads=1))
    stream = engine.open_stream(16_000, ConversionOptions(seed=0))
    assert stream is not None
    noise = np.random.default_rng(1).standard_normal(16_000).astype(np.float32) * 0.1
    assert len(np.concatenate([stream.push(noise), stream.finish()])) == 24_000
    exported = onnx.load(tmp_path / "encoders" / f"{digest}.onnx")
    assert [one.domain for one in exported.opset_import] == [""]
    sizes = [
        len(one.raw_data)
        for one in exported.graph.initializer
        if one.data_type == onnx.TensorProto.INT8
    ]
    assert len(sizes) == 24
    assert sum(sizes) == 6 * 12 * 512 * 512
