"""What the synthesis alone makes of given parameters: the best that a network can reach with it."""

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from training.decoder.network import OUTPUT_HOP, OUTPUT_RATE, HarmonicVoice
from training.sound.features import RATE, Floats


def synthesise(voice: HarmonicVoice, cepstra: NDArray[np.floating], log_f0: Floats) -> Floats:
    """Speak parameters, at 16 kHz.

    Args:
        voice: the synthesis.
        cepstra: mel-generalised cepstrum, [frames, 35].
        log_f0: natural logarithm of Hz, 0 where unvoiced, [frames]; not all of it may be.
    """
    voiced = log_f0 > 0
    frames = np.arange(len(voiced))
    f0 = np.exp(np.interp(frames, frames[voiced], log_f0[voiced])).astype(np.float32)
    noise = torch.Generator().manual_seed(len(f0))
    with torch.no_grad():
        samples = voice(
            torch.from_numpy(cepstra.astype(np.float32))[None],
            torch.from_numpy(voiced.astype(np.float32))[None],
            torch.from_numpy(f0)[None],
            torch.randn(1, (len(f0) + 1) * OUTPUT_HOP, generator=noise),
        )[0].numpy()
    result: Floats = soxr.resample(samples, OUTPUT_RATE, RATE).astype(np.float32)
    return result
