from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn.functional import pad

from shared.characters.manifest import ENCODERS, read_manifest
from tools.training.content.graphs import CONTENT_STREAM, STREAM, make_live
from tools.training.decoder.fast_transforms import FoldedEar, FoldedVoice
from tools.training.decoder.network import Network
from tools.training.decoder.stream import StreamGraph

CHARACTERS = Path(__file__).parents[4] / "characters"
ALL = 30  # frames: more than the receptive field of the network
FRAMES, STEPS = 12, 4


class FixedLevel(StreamGraph):
    """What it hears is not normalised, so that it need not know the whole recording."""

    def _normalise(self, power: torch.Tensor, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        del kept
        return torch.log(power)


class FixedLevelWhole(FoldedEar):
    """Likewise, of a whole recording."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.voice = FoldedVoice()

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


def test_the_export_gives_the_graph_of_the_bundle(tmp_path: Path) -> None:
    bundle = tmp_path / "mei"
    shutil.copytree(CHARACTERS / "mei", bundle)
    (tmp_path / ENCODERS).symlink_to(CHARACTERS / ENCODERS)
    there = read_manifest(bundle).graphs
    (bundle / there[STREAM].file).unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter of PyTorch warns of its own parts
        make_live(bundle, there[CONTENT_STREAM].sha256)
    assert read_manifest(bundle).graphs[STREAM].bytes == pytest.approx(
        there[STREAM].bytes, rel=0.05
    )
