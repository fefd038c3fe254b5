"""How far spectral envelopes are from each other."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.decoder.network import CEPSTRUM_SIZE, OUTPUT_RATE, warped_axis

NEPERS_TO_DECIBELS = 20 / math.log(10)


def envelope_axis(points: int = 72) -> NDArray[np.float64]:
    """Cosine matrix [35, points] from a cepstrum to log amplitude on a mel-like axis to 12 kHz."""
    top = 2595 * np.log10(1 + OUTPUT_RATE / 2 / 700)
    hertz = 700 * (10 ** (np.linspace(0, top, points) / 2595) - 1)
    result: NDArray[np.float64] = np.cos(np.arange(CEPSTRUM_SIZE)[:, None] * warped_axis(hertz))
    return result


def size_of(error: Tensor) -> Tensor:
    """Root mean square over the last axis; an error of 0 has a gradient, too."""
    return torch.sqrt((error * error).mean(-1) + 1e-6)
