"""The content encoder that characters share: samples in, what is said out, in few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from training.content.whisper import WIDTH, LogMel, WhisperEncoder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

CHANNELS = 128


@dataclass(frozen=True)
class Projection:
    """From Whisper's answers to content: `(answer - mean) @ matrix`.

    Attributes:
        mean: float32 [512].
        matrix: float32 [512, 128].
    """

    mean: NDArray[np.float32]
    matrix: NDArray[np.float32]

    @classmethod
    def load(cls, file: Path) -> Projection:
        """Read it from an .npz file."""
        with np.load(file) as kept:
            return cls(kept["mean"], kept["matrix"])


class ContentEncoder(nn.Module):
    """What is exported to ONNX: wave [1, 320 K] at 16 kHz to content [1, 2 K, 128]."""

    def __init__(self, whisper: WhisperEncoder, projection: Projection) -> None:
        super().__init__()
        self.mel = LogMel()
        self.network = whisper
        self.network.projection = nn.Linear(WIDTH, CHANNELS)
        matrix, mean = torch.from_numpy(projection.matrix), torch.from_numpy(projection.mean)
        with torch.no_grad():
            self.network.projection.weight.copy_(matrix.T)
            self.network.projection.bias.copy_(-mean @ matrix)

    def forward(self, wave: Tensor) -> Tensor:
        """Hear; every second frame lies between two answers and is their mean."""
        heard = self.network.projection(self.network(self.mel(wave)))
        after = torch.cat([heard[:, 1:], heard[:, -1:]], 1)
        return torch.stack([heard, (heard + after) / 2], 2).flatten(1, 2)
