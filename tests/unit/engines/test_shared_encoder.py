"""The content encoder that comes with the service, against a second implementation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from shared.characters.manifest import ENCODERS, read_manifest

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "tests" / "data" / "content" / "ctranslate2.npz"
# The largest number in the reference is 4.4, stored with steps of up to 0.004.
MOST_DIFFERENCE = 0.005
FRAME = 160


@pytest.fixture(scope="module")
def encoder() -> onnxruntime.InferenceSession:
    characters = ROOT / "characters"
    sha256 = read_manifest(characters / "hina").graphs["content"].sha256
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    file = characters / ENCODERS / f"{sha256}.onnx"
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def wave() -> np.ndarray:
    with np.load(REFERENCE) as reference:
        return np.asarray(reference["wave"], np.float32) / 32_768


def hear(encoder: onnxruntime.InferenceSession, wave: np.ndarray) -> np.ndarray:
    (content,) = np.asarray(encoder.run(["content"], {"wave": wave[None]})[0])
    return np.asarray(content)


def test_it_hears_what_the_published_encoder_hears_in_another_implementation(
    encoder: onnxruntime.InferenceSession, wave: np.ndarray
) -> None:
    with np.load(REFERENCE) as reference:
        expected = reference["content"].astype(np.float32)

    found = hear(encoder, wave)

    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < MOST_DIFFERENCE


@pytest.mark.parametrize("decibels", [-20, -12, 12])
def test_how_loud_a_recording_is_makes_no_difference(
    encoder: onnxruntime.InferenceSession, wave: np.ndarray, decibels: float
) -> None:
    found = hear(encoder, wave * np.float32(10 ** (decibels / 20)))

    assert np.abs(found - hear(encoder, wave)).max() < MOST_DIFFERENCE


@pytest.mark.parametrize("frames", [8, 50, 3_000])
@pytest.mark.parametrize("kind", ["silence", "a full-scale tone", "noise"])
def test_whatever_it_is_given_it_answers_with_numbers_of_usual_size(
    encoder: onnxruntime.InferenceSession, frames: int, kind: str
) -> None:
    time = np.arange(frames * FRAME) / (100 * FRAME)
    waves = {
        "silence": np.zeros(len(time)),
        "a full-scale tone": np.sin(2 * np.pi * 440 * time),
        "noise": np.random.default_rng(1).standard_normal(len(time)) * 0.1,
    }

    content = hear(encoder, waves[kind].astype(np.float32))

    assert content.shape == (frames, 128)
    assert np.abs(content).max() < 20
