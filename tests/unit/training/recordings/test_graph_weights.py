"""A network is read out of a graph, and another decoder is put into it."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from training.export import character_inputs
from training.graph import CharacterGraph
from training.network import Network
from training.recordings.graph_weights import load_network, with_decoder

MEI = Path(__file__).parents[4] / "characters" / "mei" / "harmonic.onnx"
NAMES = ("wave", "f0", "voicing", "noise")


def spoken(content: bytes) -> np.ndarray:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    inputs = character_inputs(50)
    fed = {name: tensor.numpy() for name, tensor in zip(NAMES, inputs, strict=True)}
    return np.asarray(session.run(None, fed)[0])


def test_a_graph_with_its_own_decoder_is_the_same_file() -> None:
    assert with_decoder(MEI, load_network(MEI)) == MEI.read_bytes()


def test_a_graph_with_another_decoder_speaks_as_the_network_does() -> None:
    torch.manual_seed(1)
    network = Network()
    heard = load_network(MEI)
    own = ("join", "decoder", "exit", "cepstrum")
    shared = {k: v for k, v in heard.state_dict().items() if not k.startswith(own)}
    network.load_state_dict(shared, strict=False)
    network.cepstrum_mean[0] = 6.0
    network.melody_mean, network.melody_spread = 5.0, 0.3
    found = spoken(with_decoder(MEI, network))
    with torch.no_grad():
        expected = CharacterGraph(network).eval()(*character_inputs(50)).numpy()
    assert np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean()) < 0.01
    assert np.abs(found - spoken(MEI.read_bytes())).max() > 0.01


def test_a_graph_of_another_kind_is_refused(tmp_path: Path) -> None:
    from tests.unit.speech.graphs import content, gain_graph  # noqa: PLC0415

    file = tmp_path / "other.onnx"
    file.write_bytes(content(gain_graph(0.5)))
    with pytest.raises(ValueError, match=r"training\.export"):
        load_network(file)
