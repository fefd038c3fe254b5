"""Networks that tell recordings from what is spoken, and distances of spectra."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

_SIZES = (512, 1_024, 2_048)
_PERIODS = (2, 3, 5, 7, 11)
_WINDOWS = (256, 512, 1_024, 2_048)
_CHANNELS = 24
_PERIOD_CHANNELS = (1, 24, 64, 128, 192)
_FLOOR = 2e-3
_ENERGY = 0.7
"""How much of what two draws of the noise differ by is taken away: the spectral energy distance (A.
Gritsenko et al., "A spectral energy distance for parallel speech synthesis", NeurIPS 2020)."""

Judged = tuple[Tensor, list[Tensor]]  # a mark for each place, and what the layers gave on the way


class SpectrumJudge(nn.Module):
    window: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("window", torch.hann_window(size), persistent=False)
        shapes = [(3, (3, 9), (1, 2), 1), (_CHANNELS, (3, 9), (1, 2), 1)]
        shapes += [(_CHANNELS, (3, 9), (1, 2), 2), (_CHANNELS, (3, 3), (1, 1), 4)]
        self.layers = nn.ModuleList(
            normed(
                nn.Conv2d(
                    channels, _CHANNELS, kernel, stride,
                    padding=(dilation, kernel[1] // 2), dilation=(dilation, 1),
                )
            )
            for channels, kernel, stride, dilation in shapes
        )  # fmt: skip
        self.exit = normed(nn.Conv2d(_CHANNELS, 1, 3, padding=1))

    def forward(self, samples: Tensor) -> Judged:
        found = torch.stft(
            samples, self.size, self.size // 4, window=self.window, return_complex=True
        )
        found = found.transpose(1, 2) / self.size**0.5
        size = torch.sqrt(found.real**2 + found.imag**2 + 1e-8)
        compressed = size**0.3 / size
        parts = [torch.log(size) * 0.3, found.real * compressed, found.imag * compressed]
        return through(self.layers, self.exit, torch.stack(parts, 1))


class PeriodJudge(nn.Module):
    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period
        channels = (*_PERIOD_CHANNELS, _PERIOD_CHANNELS[-1])
        self.layers = nn.ModuleList(
            normed(nn.Conv2d(before, after, (5, 1), (3 if place < 4 else 1, 1), padding=(2, 0)))
            for place, (before, after) in enumerate(pairwise(channels))
        )
        self.exit = normed(nn.Conv2d(channels[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, samples: Tensor) -> Judged:
        whole = samples[:, : samples.shape[1] // self.period * self.period] * 4
        return through(self.layers, self.exit, whole.reshape(len(samples), 1, -1, self.period))


def normed(layer: nn.Module) -> nn.Module:
    return nn.utils.parametrizations.weight_norm(layer)


def through(layers: nn.ModuleList, last: nn.Module, x: Tensor) -> Judged:
    seen = []
    for layer in layers:
        x = functional.leaky_relu(layer(x), 0.1)
        seen.append(x)
    return last(x), seen


class SoundJudges(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.judges = nn.ModuleList([*map(SpectrumJudge, _SIZES), *map(PeriodJudge, _PERIODS)])

    def own_loss(self, recorded: Tensor, spoken: Tensor, drawn: slice = slice(None)) -> Tensor:
        losses = [
            ((1 - judge(recorded)[0]) ** 2).mean() + (judge(spoken)[0] ** 2).mean()
            for judge in self.judges[drawn]
        ]
        return torch.stack(losses).mean()

    def loss_of(
        self, recorded: Tensor, spoken: Tensor, drawn: slice = slice(None)
    ) -> tuple[Tensor, Tensor]:
        """Return two losses: how easily they recognise it, and how differently they hear both."""
        known, heard = [], []
        for judge in self.judges[drawn]:
            with torch.no_grad():
                wanted = judge(recorded)[1]
            mark, found = judge(spoken)
            known.append(((1 - mark) ** 2).mean())
            pairs = zip(found, wanted, strict=True)
            heard += [(a[: len(b)] - b).abs().mean() / (b.abs().mean() + 1e-6) for a, b in pairs]
        return torch.stack(known).mean(), torch.stack(heard).mean()


def spectral_distance(wanted: Tensor, spoken: Tensor, again: Tensor) -> Tensor:
    """Distance of spectra at several sizes; `again` is spoken with other noise."""
    losses = []
    for size in _WINDOWS:
        a, b, c = (magnitudes_of(one, size) for one in (wanted, spoken, again))
        log_a, log_b, log_c = (torch.log(one + _FLOOR) for one in (a, b, c))
        near = ((log_a - log_b).abs().mean() + (log_a - log_c).abs().mean()) / 2
        apart = _ENERGY / 2 * (log_b - log_c).abs().mean()
        converged = norms_of(a - b).sum() / norms_of(a).sum()
        losses.append(near - apart + converged)
    return torch.stack(losses).mean()


def magnitudes_of(samples: Tensor, size: int) -> Tensor:
    window = torch.hann_window(size, device=samples.device)
    found = torch.stft(samples, size, size // 4, window=window, return_complex=True)
    return torch.sqrt(found.real**2 + found.imag**2 + 1e-7)


def norms_of(magnitudes: Tensor) -> Tensor:
    return torch.sqrt((magnitudes**2).sum((1, 2)) + 1e-6)
