"""Disturbances of what a network hears that cost nothing to make anew each time."""

import torch
from torch import Tensor
from torch.nn import functional

from training.sound import features


class Disturbance:
    """Other vocal tracts on mel power, and errors of the f0 tracker.

    Args:
        seed: of what is drawn.
    """

    def __init__(self, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed)

    def seed(self, seed: int) -> None:
        """Begin the random numbers anew, so that a step has the same ones after a break."""
        self._random.manual_seed(seed)

    def tract(self, power: Tensor) -> Tensor:
        """Stretches the band axis by up to 13 % in three of five."""
        count = len(power)
        stretch = torch.exp((self._uniform(count, 1) - 0.5) * 0.26)
        stretch = torch.where(
            self._sometimes(count, 0.6)[:, None], stretch, torch.ones_like(stretch)
        )
        position = (torch.arange(features.BANDS) * stretch).clamp(0, features.BANDS - 1.001)
        below = position.long()
        share = (position - below)[:, None]
        index = below[:, None].expand(-1, power.shape[1], -1)
        return power.gather(2, index) * (1 - share) + power.gather(2, index + 1) * share

    def doubt(self, voiced: Tensor) -> Tensor:
        """Voicing as an erring tracker sees it: soft, late, flipped for a while, or unknown."""
        count, frames = voiced.shape
        soft = functional.avg_pool1d(
            functional.pad(voiced[:, None], (2, 2), mode="replicate"), 5, 1
        )[:, 0]
        seen = torch.where(self._sometimes(count, 0.5)[:, None], soft, voiced)
        seen = (
            seen * (0.75 + 0.25 * self._uniform(count, 1)) + 0.1 * self._uniform(count, 1)
        ).clamp(0, 1)
        flips = functional.max_pool1d((self._uniform(count, 1, frames) < 0.015).float(), 7, 1, 3)[
            :, 0
        ]
        flips = flips * self._sometimes(count, 0.6)[:, None]
        seen = seen * (1 - flips) + (1 - seen) * flips
        return torch.where(self._sometimes(count, 0.25)[:, None], torch.full_like(seen, 0.5), seen)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._random)

    def _sometimes(self, count: int, share: float) -> Tensor:
        return self._uniform(count) < share
