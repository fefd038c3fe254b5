"""Gives the network's smooth cepstra back the liveliness of the target's.

A network trained for the least error averages over what it cannot know, so that its cepstra
vary less than the target's and sound muffled. Scaling each coefficient about its mean makes up
for part of that (T. Toda and K. Tokuda, "A speech parameter generation algorithm considering
global variance", IEICE 2007; here as one constant factor per coefficient).
"""

import numpy as np
import torch
from numpy.typing import NDArray

from training.decoder.network import Network

SHARE = 0.8


def widen(
    network: Network,
    found: NDArray[np.float32],
    target: NDArray[np.float32],
    share: float = SHARE,
) -> None:
    """Scales the network's output, in place, by a share of what its variance lacks.

    Args:
        network: trained.
        found: cepstra that it speaks, float32 [frames, 35].
        target: those that it should have spoken, float32 [frames, 35].
        share: 0 leaves the network as it is, 1 makes the variances equal.
    """
    factor = torch.from_numpy(1 + share * (target.std(0) / found.std(0) - 1))
    factor[0] = 1  # loudness is the speaker's
    mean = torch.from_numpy(found.mean(0))
    network.cepstrum_mean.copy_(mean + (network.cepstrum_mean - mean) * factor)
    network.cepstrum_spread.mul_(factor)
