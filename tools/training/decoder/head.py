"""The neural head: finer filters for pulses and noise than a decoder's cepstra describe.

Behind the decoder's last block six ConvNeXt blocks (Z. Liu et al., "A ConvNet for the 2020s", CVPR
2022) say for each frame how far the filters of pulses and of noise lie from the minimum-phase one
of the cepstrum, and a small network over steps of eight samples adds what changes within a frame.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.training.decoder.fast_transforms import (
    FoldedVoice,
    Pair,
    join_samples,
    two_hops,
)
from tools.training.decoder.network import (
    BINS,
    CEPSTRUM_SIZE,
    FFT_SIZE,
    OUTPUT_HOP,
    OUTPUT_RATE,
    Size,
    overlap_add,
)

WIDTH, BLOCKS, WIDENED = 192, 6, 3
PULSE_BANDS, NOISE_BANDS = 160, 80
_HIDDEN_SCALE, _CEPSTRUM_SCALE = 0.3, 0.1
_MELODY_MIDDLE, _MELODY_WIDTH = 5.6, 0.25
_EDGE_HZ, _EDGE_WIDTH_HZ = 6_000.0, 500.0  # pulses below, noise above
_LEAST_OF_PULSES, _LEAST_OF_NOISE = 0.02, 0.05
_LEVEL = math.log(32_768 * math.sqrt(2))
_QUIETEST, _LOUDEST = _LEVEL - 20, _LEVEL + 6
_SHARP, _CORRECTED = 8.0, 4.0
_STEP = 8
_STEPS = OUTPUT_HOP // _STEP
_FINE_WIDTH, _FINE_BLOCKS = 32, 3
_NOISE_GAIN, _PULSE_GAIN, _FINE_GAIN = 8.0, 0.3, 0.1


@dataclass(frozen=True)
class Decoded:
    """A decoder's output [batch, frames, ...], the pitch, and the voicing that was `heard`."""

    hidden: Tensor
    cepstrum: Tensor
    voicing: Tensor
    f0: Tensor
    heard: Tensor


@dataclass(frozen=True)
class _Filters:
    gate: Tensor
    pulses: Tensor
    voiced_noise: Tensor
    unvoiced_noise: Tensor
    phases: Tensor


class Product(nn.Module):
    """A linear layer whose weight [inputs, outputs] keeps its name in a graph."""

    def __init__(self, inputs: int, outputs: int, spread: float | None = None) -> None:
        super().__init__()
        spread = 1 / math.sqrt(inputs) if spread is None else spread
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * spread)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class HeadBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.widen = Product(WIDTH, WIDENED * WIDTH)
        self.narrow = Product(WIDENED * WIDTH, WIDTH, 0.2 / math.sqrt(WIDENED * WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        heard = self.norm(self.depthwise(x.transpose(1, 2)).transpose(1, 2))
        return x + self.narrow(functional.gelu(self.widen(heard)))


class FineNetwork(nn.Module):
    ramp: Tensor

    def __init__(self) -> None:
        super().__init__()
        width = _FINE_WIDTH
        self.frame = Product(WIDTH, width)
        self.entry = nn.Conv1d(2 * _STEP, width, 5, padding=2)
        self.depthwise = nn.ModuleList(
            nn.Conv1d(width, width, 7, padding=3, groups=width) for _ in range(_FINE_BLOCKS)
        )
        self.widen = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(_FINE_BLOCKS))
        self.narrow = nn.ModuleList(nn.Conv1d(2 * width, width, 1) for _ in range(_FINE_BLOCKS))
        self.exit = nn.Conv1d(width, _STEP, 3, padding=1)
        nn.init.zeros_(self.exit.weight)
        nn.init.zeros_(self.exit.bias)  # type: ignore[arg-type]
        ramp = torch.arange(_STEPS) / _STEPS
        self.register_buffer("ramp", ramp[None, None, :, None], persistent=False)

    def forward(self, samples: Tensor, pulses: Tensor, frames: Tensor) -> Tensor:
        here = self.frame(frames)
        after = torch.cat([here[:, 1:], here[:, -1:]], 1)
        between = here[:, :, None] + (after - here)[:, :, None] * self.ramp
        x = torch.cat([in_steps(samples) * _NOISE_GAIN, in_steps(pulses) * _PULSE_GAIN], 1)
        x = self.entry(x) + between.flatten(1, 2).transpose(1, 2)
        for depthwise, widen, narrow in zip(self.depthwise, self.widen, self.narrow, strict=True):
            x = x + narrow(functional.gelu(widen(depthwise(x))))
        return samples + self.exit(x).transpose(1, 2).flatten(1) * _FINE_GAIN


def in_steps(samples: Tensor) -> Tensor:
    return samples.reshape(samples.shape[0], -1, _STEP).transpose(1, 2)


class Head(nn.Module):
    low_wide: Tensor
    high_wide: Tensor
    low_narrow: Tensor
    high_narrow: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.entry = nn.Conv1d(Size().channels + CEPSTRUM_SIZE + 3, WIDTH, 3, padding=1)
        self.blocks = nn.ModuleList(HeadBlock() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)
        self.pulses = Product(WIDTH, PULSE_BANDS, 0.01)
        self.voiced_noise = Product(WIDTH, NOISE_BANDS, 0.01)
        self.unvoiced_noise = Product(WIDTH, NOISE_BANDS, 0.01)
        self.phases = Product(WIDTH, NOISE_BANDS, 0.01)
        self.voicing = Product(WIDTH, 1, 0.01)
        self.fine = FineNetwork()
        for name, count in (("wide", PULSE_BANDS), ("narrow", NOISE_BANDS)):
            # Each by a name of its own, by which the export knows them: they are stored as halves.
            low, high = in_pairs(mel_points(count))
            self.register_buffer(f"low_{name}", low.clone(), persistent=False)
            self.register_buffer(f"high_{name}", high.clone(), persistent=False)

    def frames(self, said: Decoded, look: Tensor | None = None) -> Tensor:
        """Numbers of frames [batch, frames, WIDTH]; `look` are vectors of voices [batch, WIDTH]."""
        melody = (torch.log(said.f0) - _MELODY_MIDDLE) / _MELODY_WIDTH
        given = [said.hidden * _HIDDEN_SCALE, said.cepstrum * _CEPSTRUM_SCALE]
        given += [one[..., None] for one in (melody, said.voicing, said.heard)]
        x = self.entry(torch.cat(given, -1).transpose(1, 2)).transpose(1, 2)
        if look is not None:
            x = x + look[:, None]
        for block in self.blocks:
            x = block(x)
        numbers: Tensor = self.norm(x)
        return numbers

    def filters(self, frames: Tensor, voicing: Tensor) -> _Filters:
        doubt = _SHARP * (voicing[..., None] - 0.5)
        return _Filters(
            torch.sigmoid(doubt + _CORRECTED * self.voicing(frames)),
            2 * self.pulses(frames),
            2 * self.voiced_noise(frames),
            2 * self.unvoiced_noise(frames),
            self.phases(frames),
        )


def mel_points(count: int) -> np.ndarray:
    """Weights of mel-spaced points at the bins, linear between two points: [count, BINS]."""

    def to_mel(hertz: np.ndarray | float) -> np.ndarray:
        return np.asarray(2595 * np.log10(1 + np.asarray(hertz) / 700))

    bins = to_mel(np.arange(BINS) * OUTPUT_RATE / FFT_SIZE)
    points = np.linspace(0, float(to_mel(OUTPUT_RATE / 2)), count)
    return np.stack([np.interp(bins, points, row) for row in np.eye(count)])


def in_pairs(table: np.ndarray) -> Tensor:
    """The lower bins counting up, and the upper ones counting down: [2, ..., bins]."""
    middle = FFT_SIZE // 4
    pairs = np.stack([table[..., : middle + 1], table[..., middle:][..., ::-1]])
    return torch.tensor(pairs, dtype=torch.float32)


class HeadVoice(FoldedVoice):
    limits: Tensor

    def __init__(self) -> None:
        super().__init__()
        hertz = np.arange(BINS) * OUTPUT_RATE / FFT_SIZE
        low = 1 / (1 + np.exp((hertz - _EDGE_HZ) / _EDGE_WIDTH_HZ))
        shares = [np.maximum(low, _LEAST_OF_PULSES), np.maximum(1 - low, _LEAST_OF_NOISE)]
        self.register_buffer("limits", in_pairs(np.log(shares)), persistent=False)

    def speak(
        self, head: Head, said: Decoded, frames: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Samples [batch, T hop] and the share of pulses of each frame [batch, T]."""
        filters = head.filters(frames, said.voicing)
        pulses = self.pulses(said.f0)
        excitation = self.spectrum(two_hops(pulses)), self.spectrum(two_hops(noise))
        halves = [self._half(head, half, said.cepstrum, filters, excitation) for half in (0, 1)]
        parted = torch.stack(self._inverse(*zip(*halves, strict=True)))
        samples = join_samples(overlap_add(parted, OUTPUT_HOP // 2, FFT_SIZE // 4))
        return head.fine(samples, pulses[:, OUTPUT_HOP:], frames), filters.gate[..., 0]

    def _around_centre(self, cosines: Tensor, sines: Tensor) -> Tensor:
        """As many samples before the centre as behind it: no filter is of minimum phase."""
        ahead, behind = cosines - sines, torch.flip(cosines + sines, [-1])
        return torch.cat([behind[..., : FFT_SIZE // 4], ahead[..., : FFT_SIZE // 4]], -1)

    def _half(
        self,
        head: Head,
        half: int,
        cepstrum: Tensor,
        said: _Filters,
        excitation: tuple[tuple[Pair, Pair], tuple[Pair, Pair]],
    ) -> tuple[Tensor, Tensor]:
        wide, narrow = (
            (head.high_wide, head.high_narrow) if half else (head.low_wide, head.low_narrow)
        )
        base, phase = cepstrum @ self.pair_log_gain[half], cepstrum @ self.pair_phase[half]
        tone = gain_of(base + self.limits[half, 0] + said.pulses @ wide) * said.gate
        hiss = gain_of(base + self.limits[half, 1] + said.voiced_noise @ narrow) * said.gate
        hiss = hiss + gain_of(base + said.unvoiced_noise @ narrow) * (1 - said.gate)
        turned = phase + said.phases @ narrow
        tone_real, tone_imaginary = tone * torch.cos(turned), tone * torch.sin(turned)
        hiss_real, hiss_imaginary = hiss * torch.cos(phase), hiss * torch.sin(phase)
        real, imaginary = (part[half] for part in excitation[0])
        noise_real, noise_imaginary = (part[half] for part in excitation[1])
        return (
            real * tone_real - imaginary * tone_imaginary
            + noise_real * hiss_real - noise_imaginary * hiss_imaginary,
            real * tone_imaginary + imaginary * tone_real
            + noise_real * hiss_imaginary + noise_imaginary * hiss_real,
        )  # fmt: skip


def gain_of(logarithm: Tensor) -> Tensor:
    return torch.exp(logarithm.clamp(_QUIETEST, _LOUDEST))


OF_OWNERS = Path(__file__).with_name("head.npz")


def read_head(file: Path = OF_OWNERS) -> Head:
    """Read the head that owners' characters have; it stands behind any decoder of a person."""
    head = Head()
    with np.load(file) as kept:
        state = {name: torch.from_numpy(kept[name].astype(np.float32)) for name in kept.files}
    head.load_state_dict(state)
    return head.eval()


def save_head(head: Head, file: Path = OF_OWNERS) -> None:
    """Write what `read_head` reads, matrices with half precision."""
    state = {name: value.numpy() for name, value in head.state_dict().items()}
    np.savez(file, **{n: x.astype(np.float16) if x.ndim > 1 else x for n, x in state.items()})
