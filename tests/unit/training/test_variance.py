"""What is done to a trained network's envelopes before it is exported."""

from __future__ import annotations

import numpy as np
import torch

from training.network import Network
from training.variance import emphasise, widen


def spoken(network: Network) -> torch.Tensor:
    torch.manual_seed(1)
    with torch.no_grad():
        cepstra, voicing = network.parameters_of(torch.randn(1, 36, 50))
    return torch.cat([cepstra, voicing[..., None]], 2)[0]


def a_network() -> Network:
    network = Network()
    network.cepstrum_mean.copy_(torch.linspace(2, -1, 35))
    network.cepstrum_spread.copy_(torch.linspace(1, 0.1, 35))
    return network


def test_formants_stand_out_while_level_tilt_and_voicing_stay() -> None:
    network = a_network()
    before = spoken(network)
    emphasise(network, 0.3)
    after = spoken(network)
    assert torch.equal(after[:, :2], before[:, :2])
    assert torch.allclose(after[:, 2:35], 1.3 * before[:, 2:35], atol=1e-5)
    assert torch.equal(after[:, 35], before[:, 35])


def test_no_emphasis_changes_nothing() -> None:
    network = a_network()
    before = spoken(network)
    emphasise(network, 0.0)
    assert torch.equal(spoken(network), before)


def test_the_missing_variance_is_given_back_about_the_mean() -> None:
    network = a_network()
    found = spoken(network)[:, :35].numpy()
    wanted = (found - found.mean(0)) * 2 + found.mean(0)
    widen(network, found, wanted, share=1.0)
    again = spoken(network)[:, :35].numpy()
    assert np.allclose(again[:, 0], found[:, 0], atol=1e-5)
    assert np.allclose(again[:, 1:].std(0), wanted[:, 1:].std(0), rtol=1e-3)
    assert np.allclose(again.mean(0), found.mean(0), atol=1e-4)
