from __future__ import annotations

import torch
from torch.nn.functional import pad

from tools.training.decoder.network import HarmonicVoice, Network
from tools.training.decoder.stream import StreamGraph

ALL = 12  # frames: more than the receptive field of the decoder
FRAMES, STEPS = 12, 4


class GivenContent(torch.nn.Module):
    """Hears what the first channel of a given content says, however long the window is."""

    def __init__(self, content: torch.Tensor, frames: int) -> None:
        super().__init__()
        self.content = content
        self.frames = frames

    def state(self) -> dict[str, torch.Tensor]:
        return {"steps": torch.zeros(1, 1)}

    def hear(self, wave: torch.Tensor, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        begin, frames = int(kept["steps"]), wave.shape[1] // 160 - 2
        kept["steps"] = kept["steps"] + self.frames
        return self.content[..., begin : begin + frames]


def test_with_enough_lookahead_the_graph_speaks_what_the_whole_network_speaks() -> None:
    """Before the first frame there is silence for the one, and no frames at all for the other."""
    network = Network().eval()
    frames = FRAMES * STEPS + ALL
    random = torch.Generator().manual_seed(1)
    content = torch.randn(1, network.size.content, frames, generator=random)
    stream = StreamGraph(network, GivenContent(content, FRAMES), FRAMES, ALL)
    f0 = torch.full((1, frames), 250.0)
    voicing = torch.rand(1, frames, generator=random)
    noise = torch.randn(1, 240 * (frames + 1), generator=random)
    noises = pad(noise, (240, 0))
    # The pulses of the whole begin with phase 0 a frame before the first one.
    begun = {"phase": torch.full((1, 1), -250.0 / 100)}
    state = list((stream.state() | begun).values())
    pieces = []
    with torch.no_grad():
        cepstrum, logit = network.speak(content, f0, voicing)
        expected = HarmonicVoice()(cepstrum, torch.sigmoid(logit * 2), f0, noise)[0]
        for begin in range(0, FRAMES * STEPS, FRAMES):
            audio, *state = stream(
                torch.zeros(1, 160 * (FRAMES + ALL + 2)),
                torch.full((1, FRAMES + ALL + 2), 250.0),
                voicing[:, begin : begin + FRAMES + ALL],
                noises[:, 240 * begin : 240 * (begin + FRAMES + 3)],
                *state,
            )
            pieces.append(audio[0])
    found = torch.cat(pieces)[240:]
    scale = float(expected.abs().max())
    difference = (found - expected[: len(found)]).abs()[ALL * 240 :]
    assert float(difference.max()) < 1e-3 * scale
