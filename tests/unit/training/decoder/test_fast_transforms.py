import math
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from shared.speech.graphs.onnx_files import inspect_model
from tools.training.content.graphs import SIZE, export_speaking, speaking_inputs
from tools.training.decoder.fast_transforms import (
    FoldedVoice,
    fold_bins,
    join_samples,
    overlap_add,
    part_samples,
)
from tools.training.decoder.features import mel_filters
from tools.training.decoder.network import HarmonicVoice, Network


@pytest.mark.parametrize("frames", [8, 9, 61])
def test_the_folded_voice_speaks_what_the_voice_speaks(frames: int) -> None:
    random = torch.Generator().manual_seed(frames)
    cepstrum = torch.randn(1, frames, 35, generator=random) * 0.3
    cepstrum[..., 0] += 8
    _, f0, voicing, noise = speaking_inputs(frames)
    expected, found = (
        voice(cepstrum, voicing, f0, noise).numpy() for voice in (HarmonicVoice(), FoldedVoice())
    )
    scale = float(np.abs(expected).max())
    assert scale > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-5 * scale)


def test_samples_split_by_parity_are_joined_again() -> None:
    signal = torch.arange(48.0).reshape(1, -1)
    even, odd = part_samples(signal, 8)
    assert even.shape == (1, 6, 4)
    assert even[0, 0].tolist() == [0, 2, 4, 6]
    assert torch.equal(join_samples(torch.stack([even, odd]).flatten(2)), signal)


def test_weights_of_bins_in_pairs_have_the_same_sum() -> None:
    low, high = fold_bins(mel_filters())
    np.testing.assert_allclose(low.sum(1) + high.sum(1), mel_filters().sum(1), rtol=1e-6)


def test_frames_a_hop_apart_are_added_where_they_overlap() -> None:
    frames = torch.ones(1, 3, 5)
    assert overlap_add(frames, 2, 0)[0].tolist() == [1, 1, 2, 2, 3, 2]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("mei") / "harmonic.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter of PyTorch warns of its own parts
        export_speaking(Network(SIZE).eval(), file)  # and checks that it speaks as the network
    return file


def weights_of(file: Path) -> dict[str, onnx.TensorProto]:
    return {weight.name: weight for weight in onnx.load(file).graph.initializer}


def test_the_exported_file_holds_large_weights_of_the_network_in_half_precision(
    exported: Path,
) -> None:
    large = {
        name: weight.data_type
        for name, weight in weights_of(exported).items()
        if name.startswith("network.") and math.prod(weight.dims) >= 1000
    }
    assert len(large) == 12
    assert set(large.values()) == {onnx.TensorProto.FLOAT16}


def test_the_exported_file_leaves_nothing_constant_to_compute_but_widened_weights(
    exported: Path,
) -> None:
    stored = weights_of(exported)
    nodes = onnx.load(exported).graph.node
    constant = [node for node in nodes if all(name in stored for name in node.input)]
    assert {node.op_type for node in constant} == {"Cast"}
    widened = {name for node in constant for name in node.input}
    halved = {name for name, one in stored.items() if one.data_type == onnx.TensorProto.FLOAT16}
    assert widened == halved


def test_the_exported_file_names_only_the_standard_operators(exported: Path) -> None:
    assert [one.domain for one in onnx.load(exported).opset_import] == [""]
    assert inspect_model(exported.read_bytes()).outputs.keys() == {"audio"}
