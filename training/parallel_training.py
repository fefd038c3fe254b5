"""Several processes train one network: each steps on its own, and now and then they meet.

Cores that other work takes from time to time are used better so than by threads of one process,
which wait for the slowest at every layer. At a meeting a process leaves its weights and goes on
with the mean of everybody's latest ones, without waiting for anybody (S. U. Stich, "Local SGD
converges fast and communicates little", ICLR 2019; P. Jin et al., "How to scale distributed deep
learning?", 2016).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

STEPS_BETWEEN = 20


@dataclass(frozen=True)
class Meeting:
    """The place where the processes leave their weights.

    Attributes:
        shelf: float32 [processes, weights] in memory that all of them share.
        seat: of this process.
    """

    shelf: Tensor
    seat: int

    @classmethod
    def open(cls, network: nn.Module, processes: int) -> "Meeting":
        """A meeting of processes that all begin with the weights of a network; at seat 0."""
        weights = nn.utils.parameters_to_vector(network.parameters()).detach()
        return cls(weights.repeat(processes, 1).share_memory_(), 0)

    def attend(self, network: nn.Module) -> None:
        """Leave the network's weights, and give it the mean of all."""
        with torch.no_grad():
            self.shelf[self.seat] = nn.utils.parameters_to_vector(network.parameters())
            nn.utils.vector_to_parameters(self.shelf.mean(0), network.parameters())
