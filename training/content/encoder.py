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
PRIOR_FRAMES = 40.0
"""Silent frames that count with those of a speaker's mean: a word has no mean of its own."""


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
    def of(cls, speakers: list[NDArray[np.float32]]) -> Projection:
        """Main directions of what speakers say, each speaker's mean apart.

        A direction's variance becomes its root: the few strong ones do not drown the others.

        Args:
            speakers: the answers in one speaker's speech each, float32 [frames, 512].
        """
        means = [one.mean(0, dtype=np.float64) for one in speakers]
        apart = np.concatenate([one - mean for one, mean in zip(speakers, means, strict=True)])
        variances, directions = np.linalg.eigh(apart.T @ apart / len(apart))
        variances, directions = variances[::-1][:CHANNELS], directions[:, ::-1][:, :CHANNELS]
        matrix = directions * variances**-0.25 / np.sqrt(np.sqrt(variances).mean())
        return cls(np.mean(means, 0).astype(np.float32), matrix.astype(np.float32))

    @classmethod
    def load(cls, file: Path) -> Projection:
        """Read what `save` wrote."""
        with np.load(file) as kept:
            return cls(kept["mean"], kept["matrix"])

    def save(self, file: Path) -> None:
        """Write it."""
        np.savez(file, mean=self.mean, matrix=self.matrix)

    def content(
        self, answers: NDArray[np.float16], frames: int, speed: float = 1.0
    ) -> NDArray[np.float32]:
        """Content [frames, 128] every 10 ms, the speaker's mean still in it.

        Args:
            answers: of the encoder [T / 2, 512].
            frames: how many.
            speed: of the speech that the encoder heard; frames are those of the speech before it
                was sped up.
        """
        heard = (answers.astype(np.float32) - self.mean) @ self.matrix
        position = np.minimum(np.arange(frames) / speed / 2, len(heard) - 1)
        before = position.astype(int)
        after = np.minimum(before + 1, len(heard) - 1)
        share = (position - before).astype(np.float32)[:, None]
        return heard[before] * (1 - share) + heard[after] * share


def without_mean(content: NDArray[np.float32], speaking: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Content without its mean while somebody speaks, which is mostly who speaks and where."""
    return content - content[speaking].sum(0) / (speaking.sum() + PRIOR_FRAMES)


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
