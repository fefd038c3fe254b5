"""A network is read out of a graph, and others are put into it."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from tools.training.content.graphs import SIZE, NeuralGraph, speaking_inputs
from tools.training.decoder.export import ExportError, load_network, with_weights
from tools.training.decoder.head import read_head
from tools.training.decoder.network import VOICING_SHARPNESS, HarmonicVoice, Network

BUNDLE = Path(__file__).parents[4] / "characters" / "mei"
MEI = BUNDLE / "harmonic.onnx"
NAMES = ("content", "f0", "voicing", "noise")


def spoken(content: bytes) -> np.ndarray:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    inputs = speaking_inputs(50)
    fed = {name: tensor.numpy() for name, tensor in zip(NAMES, inputs, strict=True)}
    return np.asarray(session.run(None, fed)[0])


@pytest.mark.parametrize("name", ["harmonic.onnx", "harmonic_stream.onnx"])
def test_a_graph_with_its_own_weights_is_the_same_file(name: str) -> None:
    content = (BUNDLE / name).read_bytes()
    assert with_weights(content, load_network(MEI, size=SIZE)) == content


def test_a_graph_with_other_weights_speaks_as_the_network_does() -> None:
    torch.manual_seed(1)
    network = Network(SIZE)
    network.cepstrum_mean[0] = 6.0
    network.melody_mean, network.melody_spread = 5.0, 0.3
    found = spoken(with_weights(MEI.read_bytes(), network))
    with torch.no_grad():
        content, f0, voicing, noise = speaking_inputs(50)
        cepstrum, logit = network.eval().speak(content.transpose(1, 2), f0, voicing)
        voiced = torch.sigmoid(logit * VOICING_SHARPNESS)
        expected = HarmonicVoice()(cepstrum, voiced, f0, noise).numpy()
    assert np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean()) < 0.01
    assert np.abs(found - spoken(MEI.read_bytes())).max() > 0.01


def test_the_graph_that_keeps_its_state_gets_what_it_has_of_its_own() -> None:
    network = load_network(MEI, size=SIZE)
    network.cepstrum_mean[0] = 6.0
    network.melody_mean = 5.0
    changed = onnx.load_from_string(
        with_weights((BUNDLE / "harmonic_stream.onnx").read_bytes(), network)
    )
    values = [onnx.numpy_helper.to_array(one) for one in changed.graph.initializer]
    assert any(value.shape == (35,) and value[0] == 6.0 for value in values)
    assert any(value.size == 1 and value == 5.0 for value in values)


def test_a_graph_with_a_head_speaks_as_another_decoder_and_head_do() -> None:
    graph = (BUNDLE.parent / "hina" / "harmonic.onnx").read_bytes()
    network = load_network(MEI, SIZE)
    with pytest.raises(ExportError, match=r"expected a network with head\.[a-z.0-9]+, found none"):
        with_weights(graph, network)
    network.head = head = read_head()
    found = spoken(with_weights(graph, network))
    with torch.no_grad():
        expected = NeuralGraph(network, head)(*speaking_inputs(50)).numpy()
    assert np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean()) < 0.01
    assert np.abs(found - spoken(graph)).max() > 0.01


def test_a_graph_of_another_kind_is_refused(tmp_path: Path) -> None:
    from tests.unit.graphs.small_graphs import content, gain_graph  # noqa: PLC0415

    file = tmp_path / "other.onnx"
    file.write_bytes(content(gain_graph(0.5)))
    with pytest.raises(ExportError, match="expected the weights of this network"):
        load_network(file)
