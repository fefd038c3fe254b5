"""The whole conversion as one graph: 16 kHz samples and melody in, 24 kHz samples out."""

import numpy as np
import torch
from torch import Tensor, nn

from training.decoder.network import VOICING_SHARPNESS, HarmonicVoice, Network
from training.sound import features


class CharacterGraph(nn.Module):
    """What is exported to ONNX.

    Inputs (f32): ``wave`` [1, 160 T] at 16 kHz, ``f0`` [1, T] Hz and positive throughout,
    ``voicing`` [1, T] 0..1, ``noise`` [1, (T + 1) * 240] standard normal.
    Output: ``audio`` [1, 240 T] at 24 kHz.
    """

    cosine: Tensor
    sine: Tensor
    filters: Tensor

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.voice = HarmonicVoice()
        # The window is 400 samples centred in three hops of 160.
        window = np.pad(features.window(), 40)
        angle = 2 * np.pi * np.outer(np.arange(480), np.arange(features.FFT_SIZE // 2 + 1))
        angle /= features.FFT_SIZE
        tables = {
            "cosine": np.cos(angle) * window[:, None],
            "sine": np.sin(angle) * window[:, None],
            "filters": features.mel_filters().T,
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.tensor(table, dtype=torch.float32))

    def mel_power(self, wave: Tensor) -> Tensor:
        """Mel power [1, T, bands]; frame n is centred at sample 160 n."""
        hops = nn.functional.pad(wave, (240, 240)).reshape(1, -1, features.HOP)
        frames = torch.cat([hops[:, :-2], hops[:, 1:-1], hops[:, 2:]], -1)[:, :-1]
        power = (frames @ self.cosine) ** 2 + (frames @ self.sine) ** 2
        return power @ self.filters + features.POWER_FLOOR

    def forward(self, wave: Tensor, f0: Tensor, voicing: Tensor, noise: Tensor) -> Tensor:
        """Convert; see the class."""
        mel = self.network.normalise(self.mel_power(wave))
        cepstrum, logit = self.network(mel, f0, voicing)
        return self.voice(cepstrum, torch.sigmoid(logit * VOICING_SHARPNESS), f0, noise)
