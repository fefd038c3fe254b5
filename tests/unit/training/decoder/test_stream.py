from __future__ import annotations

import torch
from torch.nn.functional import pad

from tools.training.decoder.fast_transforms import FoldedEar
from tools.training.decoder.network import HarmonicVoice, Network
from tools.training.decoder.stream import StreamGraph

ALL = 30  # frames: more than the receptive field of the network
FRAMES, STEPS = 12, 4


class FixedLevel(StreamGraph):
    """What it hears is not normalised, so that it need not know the whole recording."""

    def _normalise(self, power: torch.Tensor, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        del kept
        return torch.log(power)


def speak_whole(
    network: Network, wave: torch.Tensor, f0: torch.Tensor, voicing: torch.Tensor,
    noise: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Likewise, by the network and the voice as they were trained."""
    heard = torch.log(FoldedEar(network).mel_power(wave))
    cepstrum, logit = network(heard, f0, voicing)
    spoken: torch.Tensor = HarmonicVoice()(cepstrum, torch.sigmoid(logit * 2), f0, noise)
    return spoken


def test_with_enough_lookahead_the_graph_speaks_what_the_whole_graph_speaks() -> None:
    """From the second step on: before the first frame there is silence, and no frames at all."""
    network = Network().eval()
    stream = FixedLevel(network, FRAMES, ALL)
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
        expected = speak_whole(network, wave, f0, voicing, noise)[0]
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
