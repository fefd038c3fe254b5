from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
import pytest

from tests.unit.importing.torch_files import Raw, archive
from tools.bundles.files import VoiceFileError
from tools.importing.hubert import hubert_as_onnx, is_torch_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHANNELS, WIDTH, INNER, UNITS = 16, 64, 24, 256
KERNELS = (10, 3, 3, 3, 3, 2, 2)

# What Transformers' HubertModel 5.23 with PyTorch 2.13 gives for `small_network` and `wave`: after
# layer 12 and, through `final_proj`, after layer 9, in frame 5.
UNIT_12 = (0.18646, 1.52873, 0.81538, -0.49257, 1.68550, -1.28438)
UNITS_9 = (0.84757, 1.16147, -2.30373, 0.89568, 2.28090, 0.47897)

# A dictionary as fairseq's: an object that is made, and filled with attributes.
DICTIONARY = Raw(b"cfairseq.data.dictionary\nDictionary\n)\x81}(X\x05\x00\x00\x00countK\x01ub")


def small_network() -> dict[str, NDArray[np.float32]]:
    """Return a small HuBERT with fairseq's names."""
    chance = np.random.default_rng(20)

    def some(*shape: int, around: float = 0.0, spread: float = 0.2) -> NDArray[np.float32]:
        return (around + spread * chance.standard_normal(shape)).astype(np.float32)

    weights = {
        f"feature_extractor.conv_layers.{layer}.0.weight": some(
            CHANNELS, CHANNELS if layer else 1, kernel
        )
        for layer, kernel in enumerate(KERNELS)
    }

    def normalisation(name: str, size: int) -> None:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = some(size, around=1.0), some(size)

    def linear(name: str, into: int, out: int) -> None:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = some(out, into), some(out)

    normalisation("feature_extractor.conv_layers.0.2", CHANNELS)
    normalisation("layer_norm", CHANNELS)
    linear("post_extract_proj", CHANNELS, WIDTH)
    weights["encoder.pos_conv.0.weight_v"] = some(WIDTH, WIDTH // 16, 128)
    weights["encoder.pos_conv.0.weight_g"] = some(1, 1, 128, around=1.0)
    weights["encoder.pos_conv.0.bias"] = some(WIDTH)
    normalisation("encoder.layer_norm", WIDTH)
    for layer in range(12):
        name = f"encoder.layers.{layer}"
        for part in "kvq":
            linear(f"{name}.self_attn.{part}_proj", WIDTH, WIDTH)
        linear(f"{name}.self_attn.out_proj", WIDTH, WIDTH)
        normalisation(f"{name}.self_attn_layer_norm", WIDTH)
        linear(f"{name}.fc1", WIDTH, INNER)
        linear(f"{name}.fc2", INNER, WIDTH)
        normalisation(f"{name}.final_layer_norm", WIDTH)
    linear("final_proj", WIDTH, UNITS)
    return weights


def wave() -> NDArray[np.float32]:
    """Return 0.25 s of a rising tone at 16 kHz."""
    seconds = np.arange(4000) / 16_000
    return np.sin(2 * np.pi * (200 + 900 * seconds) * seconds).astype(np.float32)[None]


def fairseq_file(**more: object) -> bytes:
    model = {**small_network(), "label_embs_concat": np.zeros((3, 4), np.float32)}
    settings = {"args": None, "task_state": {"dictionaries": [DICTIONARY]}}
    return archive({**settings, "model": model, **more})


def test_features_are_those_of_another_implementation() -> None:
    session = onnxruntime.InferenceSession(hubert_as_onnx(fairseq_file()))

    outputs = session.run(["units9", "unit12"], {"audio": wave()})
    units9, unit12 = (np.asarray(output) for output in outputs)

    assert (units9.shape, unit12.shape) == ((1, 12, UNITS), (1, 12, WIDTH))
    np.testing.assert_allclose(unit12[0, 5, :6], UNIT_12, atol=1e-4)
    np.testing.assert_allclose(units9[0, 5, :6], UNITS_9, atol=1e-4)


def test_a_file_of_half_precision_without_a_projection_serves_version_2_alone() -> None:
    network = {
        name: array.astype(np.float16)
        for name, array in small_network().items()
        if not name.startswith("final_proj.")
    }

    session = onnxruntime.InferenceSession(hubert_as_onnx(archive(network)))

    assert [output.name for output in session.get_outputs()] == ["unit12"]


def test_nothing_that_a_file_names_is_called() -> None:
    call = Raw(b"cposix\nsystem\n(X\x02\x00\x00\x00lstR")

    with pytest.raises(VoiceFileError, match=r"found a call of 'posix\.system'; nothing of it was"):
        hubert_as_onnx(fairseq_file(extra_state=call))


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("encoder.layers.11.", "expected HuBERT in its base form with 12 layers, found 11"),
        ("encoder.layers.3.fc1.bias", "tensor 'encoder.layers.3.fc1.bias': expected one of HuBERT"),
    ],
)
def test_a_file_without_a_part_is_refused_for_it(without: str, message: str) -> None:
    network = {n: a for n, a in small_network().items() if not n.startswith(without)}

    with pytest.raises(VoiceFileError) as refused:
        hubert_as_onnx(archive(network))

    assert str(refused.value).startswith(message)


def test_a_voice_is_told_from_an_encoder() -> None:
    assert is_torch_file(fairseq_file())
    with pytest.raises(VoiceFileError, match="found an RVC voice: nox -s character -- import FILE"):
        hubert_as_onnx(archive({"weight": {}, "config": [1]}))
