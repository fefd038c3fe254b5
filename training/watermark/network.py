"""The network that decides which cells became louder; `decisions` of the detector computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import nn

from speech.results.watermark.decisions import CHIP_FRAMES, Weights
from speech.results.watermark.pattern import BANDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from training.sound.features import Floats
    from training.watermark.lessons import Lessons

_HIDDEN = 16
_BATCH = 12
_FASTEST = 4e-3
_AGREEING = 4e-3


class Decider(nn.Module):
    """Hears features, [N, T, BANDS, 2], and decides, [N, T / CHIP_FRAMES, BANDS]."""

    def __init__(self) -> None:
        super().__init__()
        long = 3 * CHIP_FRAMES
        self._chips = nn.Conv2d(
            2, _HIDDEN, (long, 5), stride=(CHIP_FRAMES, 1), padding=(CHIP_FRAMES, 2), bias=False
        )
        self._bands = nn.Parameter(torch.zeros(_HIDDEN, 1, BANDS))
        self._around = nn.Conv2d(_HIDDEN, _HIDDEN, 3, padding=1)
        self._decision = nn.Conv2d(_HIDDEN, 1, 1)

    def forward(self, heard: torch.Tensor) -> torch.Tensor:
        """Return logits of louder."""
        hidden = torch.relu(self._chips(heard.permute(0, 3, 1, 2)) + self._bands)
        decided: torch.Tensor = self._decision(torch.relu(self._around(hidden)))
        return decided[:, 0]

    def weights(self) -> Weights:
        """Return what was learned."""
        return Weights(
            chips=_array(self._chips.weight.permute(2, 3, 1, 0)),
            bands=_array(self._bands[:, 0].T),
            around=_array(self._around.weight.permute(2, 3, 1, 0)),
            around_bias=_array(self._around.bias),
            decision=_array(self._decision.weight[0, :, 0, 0]),
            decision_bias=_array(self._decision.bias[0]),
        )


def _array(learned: torch.Tensor | None) -> Floats:
    return np.asarray(cast("torch.Tensor", learned).detach().numpy(), np.float32)


def learn(
    lessons: Lessons, rounds: int, report: Callable[[int, float], None], seed: int = 0
) -> Decider:
    """Learn from all lessons, so many times.

    Args:
        lessons: marked and damaged speech.
        rounds: how often each is heard.
        report: is told after each round how well decisions agree with the marks, in standard
            deviations of chance.
        seed: of the beginning and the order.
    """
    torch.manual_seed(seed)
    decider = Decider()
    heard, signs = torch.from_numpy(lessons.heard), torch.from_numpy(lessons.signs).float()
    count = len(heard) // _BATCH * _BATCH
    optimizer = torch.optim.Adam(decider.parameters())
    pace = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, _FASTEST, total_steps=rounds * count // _BATCH
    )
    for number in range(rounds):
        agreed = []
        for batch in torch.randperm(len(heard))[:count].view(-1, _BATCH):
            decided = decider(heard[batch])
            agreement = agreements(decided, signs[batch]).mean()
            loss = nn.functional.softplus(-decided * signs[batch]).mean() - _AGREEING * agreement
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            pace.step()
            agreed.append(float(agreement.detach()))
        report(number, float(np.mean(agreed)))
    return decider


def agreements(decided: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """Return how well each sound's decisions agree with its signs, as the detector counts."""
    return (decided * signs).sum((1, 2)) / decided.square().sum((1, 2)).sqrt().clamp_min(1e-6)
