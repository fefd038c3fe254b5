from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn.functional import pad

from training.decoder.folded import FoldedGraph
from training.decoder.graph_weights import load_network
from training.decoder.network import Network
from training.decoder.stream import StreamGraph
from training.decoder.stream_export import export_stream

MEI = Path(__file__).parents[2] / "data/bundles/mei"
ALL = 30  # frames: more than the receptive field of the network
FRAMES, STEPS = 12, 4


class FixedLevel(StreamGraph):
    """What it hears is not normalised, so that it need not know the whole recording."""

    def _normalise(self, power: torch.Tensor, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        del kept
        return torch.log(power)


class FixedLevelWhole(FoldedGraph):
    """Likewise."""

    def forward(
        self, wave: torch.Tensor, f0: torch.Tensor, voicing: torch.Tensor, noise: torch.Tensor
    ) -> torch.Tensor:
        cepstrum, logit = self.network(torch.log(self.mel_power(wave)), f0, voicing)
        return self.voice(cepstrum, torch.sigmoid(logit * 2), f0, noise)


def test_with_enough_lookahead_the_graph_speaks_what_the_whole_graph_speaks() -> None:
    """From the second step on: before the first frame there is silence, and no frames at all."""
    network = Network().eval()
    stream, whole = FixedLevel(network, FRAMES, ALL), FixedLevelWhole(network)
    frames = FRAMES * STEPS + ALL
    random = torch.Generator().manual_seed(1)
    wave = torch.randn(1, 160 * frames, generator=random) * 0.1
    f0 = torch.full((1, frames), 250.0)
    voicing = torch.rand(1, frames, generator=random)
    noise = torch.randn(1, 240 * (frames + 1), generator=random)
    padded, noises = pad(wave, (240 + 160, 80)), pad(noise, (240, 0))
    state = list(stream.state().values())
    pieces = []
    with torch.no_grad():
        expected = whole(wave, f0, voicing, noise)[0]
        # The pulses of the whole begin with phase 0 a frame before the first one.
        state[1] = torch.full((1, 1), -250.0 / 100)
        for begin in range(0, FRAMES * STEPS, FRAMES):
            end = begin + FRAMES + ALL
            audio, *state = stream(
                padded[:, 160 * begin + 160 : 160 * (end + 2) + 160],
                torch.full((1, FRAMES + ALL + 2), 250.0),
                voicing[:, begin:end],
                noises[:, 240 * begin : 240 * (begin + FRAMES + 3)],
                *state,
            )
            pieces.append(audio[0])
    found = torch.cat(pieces)[240:]
    scale = float(expected.abs().max())
    # The convolutions of the whole see zeros before the first frame; the stream has heard silence.
    difference = (found - expected[: len(found)]).abs()[ALL * 240 :]
    assert float(difference.max()) < 1e-3 * scale


def test_the_network_is_read_back_from_the_bundle() -> None:
    network = load_network(MEI / "harmonic.onnx")

    assert network.entry.weight.shape == (160, 80, 5)
    assert float(network.mel_mean.mean()) == pytest.approx(-5, abs=3)


def test_the_export_gives_the_graph_of_the_bundle(tmp_path: Path) -> None:
    bundle = tmp_path / "mei"
    shutil.copytree(MEI, bundle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter of PyTorch warns of its own parts
        file = export_stream(bundle)

    assert file.stat().st_size == pytest.approx((MEI / file.name).stat().st_size, rel=0.05)
