"""A perceptual loss: how a phone recogniser of the target's voice hears the parameters.

Errors of the same size in decibels are not equally bad: a little too much energy turns /p/
into /b/, and a network trained for the smallest error blurs exactly these details. A small phone
recogniser of the target's own envelopes is trained first and frozen. What its layers see in the
network's speech is then compared with what they see in the target's (J. Johnson, A. Alahi and
L. Fei-Fei, "Perceptual losses for real-time style transfer", ECCV 2016). It shares nothing with
the recogniser that measures the quality, which hears recordings.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.dataset import Batch, Dataset, envelope_axis
from training.phones import INVENTORY

POINTS = 72
_WIDTH = 128


class Perception(nn.Module):
    """Hears parameters of the target's speech, 0.2 s around each frame."""

    axis: Tensor

    def __init__(self) -> None:
        super().__init__()
        axis = torch.tensor(envelope_axis(POINTS), dtype=torch.float32)
        self.register_buffer("axis", axis, persistent=False)
        self.register_buffer("mean", torch.zeros(POINTS))
        widths = (POINTS + 1, _WIDTH, _WIDTH, _WIDTH)
        self.layers = nn.ModuleList(
            nn.Conv1d(before, after, 5, padding=2 * (1 + index), dilation=1 + index)
            for index, (before, after) in enumerate(pairwise(widths))
        )
        self.phones = nn.Conv1d(_WIDTH, len(INVENTORY), 1)

    def hear(self, cepstrum: Tensor, voiced: Tensor) -> list[Tensor]:
        """What each layer sees, [batch, channels, frames] each, and the phones' logits last."""
        envelope = cepstrum @ self.axis - self.mean
        x = torch.cat([envelope, 2 * voiced[..., None] - 1], -1).transpose(1, 2)
        seen = []
        for layer in self.layers:
            x = functional.relu(layer(x))
            seen.append(x)
        return [*seen, self.phones(x)]

    def distance(self, found: list[Tensor], wanted: list[Tensor], weight: Tensor) -> Tensor:
        """Mean relative distance of what the layers see; weight is [batch, frames]."""
        total = weight.sum()
        parts = [
            ((a - b).abs().mean(1) * weight).sum()
            / ((b.abs().mean(1) * weight).sum() + total * 1e-3)
            for a, b in zip(found[:-1], wanted[:-1], strict=True)
        ]
        return torch.stack(parts).mean()


def train(data: Dataset, steps: int, batch: int = 16) -> Perception:
    """A recogniser of the target's sounds in her own language, frozen."""
    network = Perception()
    network.mean.copy_(torch.from_numpy(data.statistics()[0]) @ network.axis)
    optimiser = torch.optim.AdamW(network.parameters(), 2e-3)
    for step in range(steps):
        loss = _loss(network, data.batch(batch, native=True))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for group in optimiser.param_groups:
            group["lr"] = 2e-3 * (1 - step / steps) + 1e-5
        optimiser.step()
        if step % 300 == 0:
            print(
                f"perception: step {step} of {steps}, loss {float(loss.detach()):.3f}", flush=True
            )
    return network.requires_grad_(requires_grad=False)


def _loss(network: Perception, batch: Batch) -> Tensor:
    # Small errors must not surprise it: what it will hear is not the target's own speech.
    noise = 0.15 * torch.randn_like(batch.cepstrum) * batch.cepstrum.std((0, 1))
    logits = network.hear(batch.cepstrum + noise, batch.voiced)[-1]
    lost = functional.cross_entropy(logits, batch.phones, reduction="none")
    return (lost * batch.weight).sum() / batch.weight.sum()
