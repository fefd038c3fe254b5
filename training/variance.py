"""Gives the network's smooth cepstra back the liveliness of the target's.

A network trained for the least error averages over what it cannot know, so that its cepstra
vary less than the target's and sound muffled. Scaling each coefficient about its mean makes up
for part of that (T. Toda and K. Tokuda, "A speech parameter generation algorithm considering
global variance", IEICE 2007; here as one constant factor per coefficient).
"""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from training.generate import Example
from training.network import Network
from training.phones import PHONE_INDEX

SHARE = 0.8
_PAUSES = [PHONE_INDEX[name] for name in ("sil", "pau", "cl")]


def compensate(network: Network, examples: Iterable[Example], share: float = SHARE) -> None:
    """Scales the network's output, in place, by a share of what its variance lacks.

    Args:
        network: trained.
        examples: sentences in the target's own language.
        share: 0 leaves the network as it is, 1 makes the variances equal.
    """
    spoken, wanted = [], []
    for example in examples:
        voiced = example.log_f0 > 0
        frames = np.arange(len(voiced))
        f0 = np.exp(np.interp(frames, frames[voiced], example.log_f0[voiced])).astype(np.float32)
        power = torch.exp(torch.from_numpy(example.mels[0].astype(np.float32)))[None]
        with torch.no_grad():
            cepstrum, _ = network(
                network.normalise(power),
                torch.from_numpy(f0)[None],
                torch.from_numpy(voiced.astype(np.float32))[None],
            )
        speaking = ~np.isin(example.phones, _PAUSES)
        spoken.append(cepstrum[0].numpy()[speaking])
        wanted.append(example.cepstra.astype(np.float32)[speaking])
    widen(network, np.concatenate(spoken), np.concatenate(wanted), share)


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
