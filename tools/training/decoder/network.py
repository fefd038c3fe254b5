"""A character's decoder: content and melody in, vocal tract filter and voicing out.

The target's voice is itself parametric, so the network learns its parameters (the
mel-generalised cepstrum that drives HTS's synthesis filter and the voicing) instead
of samples. `HarmonicVoice` speaks them: pulses below the voicing limit and noise above
it, one minimum-phase filter per frame, overlap-add (K. Tokuda et al., "Mel-generalized
cepstral analysis", ICSLP 1994; T. Yoshimura et al., "Mixed excitation for HMM-based
speech synthesis", Eurospeech 2001).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

CEPSTRUM_SIZE = 35  # numbers of a mel-generalised cepstrum (gamma 0), as the HTS voice Mei has them
WARPING = 0.55
TARGET_RATE = 48_000  # samples per second for which WARPING is
OUTPUT_RATE = 24_000
OUTPUT_HOP = 240
FFT_SIZE = 1024
BINS = FFT_SIZE // 2 + 1
LOG_F0_MEAN, LOG_F0_SPREAD = math.log(330.0), 0.23
# What is spoken is voiced or not: half voiced sounds hoarse.
VOICING_SHARPNESS = 2.0
# Odd taps of the voice's own low-pass filter (31 taps at 48 kHz), doubled: 15 taps at 24 kHz.
VOICING_LIMIT = (
    -0.0197, -0.0009, 0.0415, 0.0, -0.0900, 0.0044, 0.3184, 0.5046,
    0.3184, 0.0044, -0.0900, 0.0, 0.0415, -0.0009, -0.0197,
)  # fmt: skip


@dataclass(frozen=True)
class Size:
    channels: int = 160
    decoder_blocks: int = 5
    content: int = 64


class GatedBlock(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.wide = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation)
        self.narrow = nn.Conv1d(channels, channels, 1)
        with torch.no_grad():
            self.narrow.weight.mul_(0.5)

    def forward(self, x: Tensor) -> Tensor:
        signal, gate = self.wide(x).chunk(2, 1)
        return x + self.narrow(torch.tanh(signal) * torch.sigmoid(gate))


def gated_blocks(
    channels: int, count: int, dilations: tuple[int, ...] = (1, 2, 4)
) -> nn.Sequential:
    reaches = (dilations[index % len(dilations)] for index in range(count))
    return nn.Sequential(*(GatedBlock(channels, reach) for reach in reaches))


class Network(nn.Module):
    cepstrum_mean: Tensor
    cepstrum_spread: Tensor

    def __init__(self, size: Size | None = None) -> None:
        super().__init__()
        size = size or Size()
        self.size = size
        self.join = nn.Conv1d(size.content + 2, size.channels, 3, padding=1)
        self.decoder = gated_blocks(size.channels, size.decoder_blocks)
        self.exit = nn.Conv1d(size.channels, CEPSTRUM_SIZE + 1, 1)
        self.register_buffer("cepstrum_mean", torch.zeros(CEPSTRUM_SIZE))
        self.register_buffer("cepstrum_spread", torch.ones(CEPSTRUM_SIZE))
        self.melody_mean, self.melody_spread = LOG_F0_MEAN, LOG_F0_SPREAD

    def speak(self, content: Tensor, f0: Tensor, voicing: Tensor) -> tuple[Tensor, Tensor]:
        """Cepstrum [batch, frames, 35] and voicing logit [batch, frames]."""
        return self.hidden(content, f0, voicing)[1:]

    def hidden(self, content: Tensor, f0: Tensor, voicing: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = torch.cat([content, self.melody(f0)[:, None], voicing[:, None]], 1)
        x = self.decoder(self.join(x))
        return x.transpose(1, 2), *self.parameters_of(self.exit(x))

    def melody(self, f0: Tensor) -> Tensor:
        return (torch.log(f0) - self.melody_mean) / self.melody_spread

    def parameters_of(self, out: Tensor) -> tuple[Tensor, Tensor]:
        """Cepstrum and voicing logit of what the last layer gives [batch, 36, frames]."""
        out = out.transpose(1, 2)
        cepstrum = out[..., :CEPSTRUM_SIZE] * self.cepstrum_spread + self.cepstrum_mean
        return cepstrum, out[..., CEPSTRUM_SIZE]


def warped_axis(hertz: np.ndarray) -> np.ndarray:
    """Phase of the target's all-pass warping at frequencies, in radians."""
    omega = 2 * np.pi * hertz / TARGET_RATE
    return omega + 2 * np.arctan2(WARPING * np.sin(omega), 1 - WARPING * np.cos(omega))


class HarmonicVoice(nn.Module):
    log_gain: Tensor
    phase: Tensor
    cosine: Tensor
    sine: Tensor
    window: Tensor
    limit: Tensor
    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        axis = warped_axis(np.arange(BINS) * OUTPUT_RATE / FFT_SIZE)
        order = np.arange(CEPSTRUM_SIZE)[:, None]
        bins, samples = np.arange(BINS)[None], np.arange(BINS)[:, None]
        angle = 2 * np.pi * ((bins * samples) % FFT_SIZE) / FFT_SIZE
        weight = np.full(BINS, 2.0)
        weight[[0, -1]] = 1.0
        length = 2 * OUTPUT_HOP
        tables = {
            "log_gain": np.cos(order * axis),
            "phase": -np.sin(order * axis),
            "cosine": np.cos(angle),
            "sine": np.sin(angle),
            "window": 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length),
            "limit": np.array(VOICING_LIMIT)[None, None],
            "weight": weight / FFT_SIZE,
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.tensor(table, dtype=torch.float32), persistent=False)

    def pulses(self, f0: Tensor) -> Tensor:
        """Band-limited pulses of unit power, [batch, (frames + 1) * hop], beginning a hop early."""
        before = torch.cat([f0[:, :1], f0], 1)
        after = torch.cat([f0, f0[:, -1:]], 1)
        return self.pulses_between(before, after)[0]

    def pulses_between(
        self, before: Tensor, after: Tensor, phase: Tensor | float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Pulses between f0 at both ends of each hop, and the cycles before each."""
        before, after = before[:, :, None].double(), after[:, :, None].double()
        step = torch.arange(1, OUTPUT_HOP + 1, dtype=torch.float64, device=before.device)
        ramp = step * (step - 1) / (2 * OUTPUT_HOP)
        turns = (before * step + (after - before) * ramp) / OUTPUT_RATE
        whole = torch.cumsum(turns[:, :, -1], 1) - turns[:, :, -1] + phase
        cycles = (turns + whole[:, :, None]).flatten(1)
        hertz = (before + (after - before) * (step - 1) / OUTPUT_HOP).flatten(1).float()
        distance = (cycles - torch.round(cycles)).float() * OUTPUT_RATE / hertz
        angle = math.pi * distance
        shape = torch.where(
            angle.abs() < 1e-3, torch.ones_like(angle), torch.sin(angle) / (angle + 1e-12)
        )
        pulses = shape * torch.sqrt(OUTPUT_RATE / hertz) - torch.sqrt(hertz / OUTPUT_RATE)
        return pulses, whole

    def frames(self, signal: Tensor) -> Tensor:
        """Windowed frames [batch, frames, 2 * hop]."""
        hops = signal.reshape(signal.shape[0], -1, OUTPUT_HOP)
        return torch.cat([hops[:, :-1], hops[:, 1:]], -1) * self.window

    def forward(self, cepstrum: Tensor, voiced: Tensor, f0: Tensor, noise: Tensor) -> Tensor:
        """Samples [batch, frames * hop]; `voiced` is 0..1 per frame, `noise` standard normal."""
        tonal = self.pulses(f0) - noise
        tonal = functional.conv1d(tonal[:, None], self.limit, padding=7)[:, 0]
        excitation = self.frames(noise) + voiced[..., None] * self.frames(tonal)
        real, imaginary = self._forward_transform(excitation)
        gain = torch.exp(cepstrum @ self.log_gain - math.log(32768 * math.sqrt(2)))
        angle = cepstrum @ self.phase
        filter_real, filter_imaginary = gain * torch.cos(angle), gain * torch.sin(angle)
        spoken = self._inverse_transform(
            real * filter_real - imaginary * filter_imaginary,
            real * filter_imaginary + imaginary * filter_real,
        )
        return overlap_add(spoken, OUTPUT_HOP, OUTPUT_HOP)

    def _forward_transform(self, frame: Tensor) -> tuple[Tensor, Tensor]:
        ahead = frame[..., OUTPUT_HOP:]
        behind = torch.flip(frame[..., 1 : OUTPUT_HOP + 1], [-1])
        even = torch.cat([ahead[..., :1], ahead[..., 1:] + behind[..., 1:]], -1)
        odd = ahead - behind
        return even @ self.cosine[:OUTPUT_HOP], -(odd @ self.sine[:OUTPUT_HOP])

    def _inverse_transform(self, real: Tensor, imaginary: Tensor) -> Tensor:
        even = (real * self.weight) @ self.cosine
        odd = (imaginary * self.weight) @ self.sine
        ahead, behind = even - odd, torch.flip(even + odd, [-1])
        before = behind[..., -1 - OUTPUT_HOP : -1]
        return torch.cat([before, ahead[..., :-1], behind[..., : BINS - 1 - OUTPUT_HOP]], -1)


def overlap_add(frames: Tensor, hop: int, skipped: int) -> Tensor:
    """Add up frames [..., count, length] a hop apart, without what is before `skipped`."""
    hops = -(-frames.shape[-1] // hop)
    return add_hops(frames, hop).flatten(-2)[..., skipped : skipped - hops * hop]


def add_hops(frames: Tensor, hop: int) -> Tensor:
    """Add up frames [..., count, length] a hop apart: [..., count + ceil(length / hop), hop]."""
    length = frames.shape[-1]
    hops = -(-length // hop)
    padded = functional.pad(frames, (0, hops * hop - length))
    parts = padded.reshape(*frames.shape[:-1], hops, hop)
    total = functional.pad(parts[..., 0, :], (0, 0, 0, hops))
    for j in range(1, hops):
        total = total + functional.pad(parts[..., j, :], (0, 0, j, hops - j))
    return total
