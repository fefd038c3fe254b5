"""Transforms of the exported graphs, with a fraction of the usual work.

A Fourier transform as a product with a table of cosines and one of sines is quicker than its size
suggests if the tables are small. Both symmetries of a real transform make them so. About the
centre of a frame the cosines see only the sum of the samples before and behind, the sines only the
difference. And for half the size minus a bin, they are those of the bin itself, but for the sign,
which follows the parity of the sample; so samples are kept apart by parity, and bins as pairs: the
lower half counting up, the upper half counting down (decimation, as in J. Cooley and J. Tukey, "An
algorithm for the machine calculation of complex Fourier series", 1965, taken one step and no
further). Only standard operators are needed.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tools.training.decoder.network import (
    CEPSTRUM_SIZE,
    FFT_SIZE,
    OUTPUT_HOP,
    OUTPUT_RATE,
    HarmonicVoice,
    warped_axis,
)

FRAME = 480  # samples of a frame, of what is heard at 16 kHz and of what is spoken at 24 kHz alike
_HALF = FRAME // 2
_OUTPUT_SCALE = 1 / (32768 * math.sqrt(2))

Table = NDArray[np.float64]
Pair = tuple[Tensor, Tensor]


class FoldedSpectrum(nn.Module):
    """Fourier transforms of frames about their centre, times a window symmetric about it."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, size: int, window: NDArray[np.floating]) -> None:
        super().__init__()
        samples = np.arange(_HALF).reshape(-1, 2).T[..., None]
        angle = 2 * np.pi * samples * np.arange(size // 4 + 1) / size
        weight = window[_HALF + samples]
        cosine, sine = np.cos(angle) * weight, np.sin(angle) * weight
        cosine[0, 0] /= 2  # the centre is before and behind itself
        self.register_buffer("cosine", as_tensor(cosine), persistent=False)
        self.register_buffer("sine", as_tensor(sine), persistent=False)

    def forward(self, frames: Pair) -> tuple[Pair, Pair]:
        """Real and imaginary part of bins in pairs.

        Args:
            frames: the even and the odd samples, each [batch, frames, FRAME / 2].

        Returns:
            Each as two of [batch, frames, size / 4 + 1]: bins k of the lower half, and bins
            size / 2 - k of the upper; the middle bin is in both.
        """
        middle = _HALF // 2
        even, odd = frames
        even_behind = torch.flip(even[..., 1 : middle + 1], [-1])
        odd_behind = torch.flip(odd[..., :middle], [-1])
        even_real = (even[..., middle:] + even_behind) @ self.cosine[0]
        odd_real = (odd[..., middle:] + odd_behind) @ self.cosine[1]
        even_imaginary = (even_behind - even[..., middle:]) @ self.sine[0]
        odd_imaginary = (odd_behind - odd[..., middle:]) @ self.sine[1]
        real = even_real + odd_real, even_real - odd_real
        imaginary = odd_imaginary + even_imaginary, odd_imaginary - even_imaginary
        return real, imaginary


class FoldedVoice(HarmonicVoice):
    pair_log_gain: Tensor
    pair_phase: Tensor
    even_cosine: Tensor
    odd_cosine: Tensor
    even_sine: Tensor
    odd_sine: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.spectrum = FoldedSpectrum(FFT_SIZE, self.window.numpy())
        quarter = FFT_SIZE // 4
        bins = np.arange(quarter + 1)
        hertz = np.stack([bins, FFT_SIZE // 2 - bins])[:, None] * OUTPUT_RATE / FFT_SIZE
        angle = np.arange(CEPSTRUM_SIZE)[:, None] * warped_axis(hertz)
        # Each bin stands for two, but the first and the last; the middle one comes twice.
        weight = np.full((quarter + 1, 1), 2 * _OUTPUT_SCALE / FFT_SIZE)
        weight[[0, -1]] /= 2
        even = 2 * np.pi * np.outer(bins, 2 * bins) / FFT_SIZE
        odd = 2 * np.pi * np.outer(bins, 2 * bins[:-1] + 1) / FFT_SIZE
        tables = {
            "pair_log_gain": np.cos(angle),
            "pair_phase": -np.sin(angle),
            "even_cosine": np.cos(even) * weight,
            "odd_cosine": np.cos(odd) * weight,
            "even_sine": np.sin(even) * weight,
            "odd_sine": np.sin(odd) * weight,
        }
        for name, table in tables.items():
            self.register_buffer(name, as_tensor(table), persistent=False)

    def spoken_frames(
        self, cepstrum: Tensor, voiced: Tensor, noise: Tensor, tonal: Tensor
    ) -> Tensor:
        """Samples from a hop before each frame's centre, by parity: [2, batch, frames, half]."""
        excitation = tuple(
            hiss + voiced[..., None] * tone
            for hiss, tone in zip(two_hops(noise), two_hops(tonal), strict=True)
        )
        real, imaginary = self.spectrum(excitation)
        spoken = [self._filter(cepstrum, half, real[half], imaginary[half]) for half in (0, 1)]
        return torch.stack(self._inverse(*zip(*spoken, strict=True)))

    def _filter(
        self, cepstrum: Tensor, half: int, real: Tensor, imaginary: Tensor
    ) -> tuple[Tensor, Tensor]:
        gain = torch.exp(cepstrum @ self.pair_log_gain[half])
        angle = cepstrum @ self.pair_phase[half]
        filter_real, filter_imaginary = gain * torch.cos(angle), gain * torch.sin(angle)
        return (
            real * filter_real - imaginary * filter_imaginary,
            real * filter_imaginary + imaginary * filter_real,
        )

    def _inverse(self, real: Pair, imaginary: Pair) -> Pair:
        cosines = real[0] + real[1], real[0] - real[1]
        sines = imaginary[0] - imaginary[1], imaginary[0] + imaginary[1]
        even = self._around_centre(cosines[0] @ self.even_cosine, sines[0] @ self.even_sine)
        odd = self._around_centre(cosines[1] @ self.odd_cosine, sines[1] @ self.odd_sine)
        return even, odd

    def _around_centre(self, cosines: Tensor, sines: Tensor) -> Tensor:
        ahead, behind = cosines - sines, torch.flip(cosines + sines, [-1])
        ahead_samples, hop = FFT_SIZE // 4, OUTPUT_HOP // 2
        wrapped = ahead_samples - hop
        before = behind[..., wrapped : wrapped + hop]
        return torch.cat([before, ahead[..., :ahead_samples], behind[..., :wrapped]], -1)


def fold_bins(rows: NDArray[np.floating]) -> tuple[Table, Table]:
    """Part weights of bins [rows, bins] for bins in pairs; the middle one counts half in both."""
    quarter = rows.shape[1] // 2
    low = rows[:, : quarter + 1].astype(np.float64)
    high = rows[:, quarter:][:, ::-1].astype(np.float64)
    low[:, -1] /= 2
    high[:, -1] /= 2
    return low, high


def part_samples(signal: Tensor, hop: int) -> Pair:
    """Samples [batch, hops * hop] by parity: two of [batch, hops, hop / 2]."""
    batch = signal.shape[0]
    parted = signal.reshape(batch, -1, 2).permute(2, 0, 1)
    hops = parted.reshape(2, batch, -1, hop // 2)
    return hops[0], hops[1]


def join_samples(parted: Tensor) -> Tensor:
    """The reverse of `part_samples`, from [2, batch, samples / 2]."""
    return parted.permute(1, 2, 0).flatten(1)


def two_hops(signal: Tensor) -> Pair:
    even, odd = part_samples(signal, OUTPUT_HOP)
    return lay_in_a_row(even, 2), lay_in_a_row(odd, 2)


def lay_in_a_row(hops: Tensor, count: int) -> Tensor:
    """Lay so many hops [batch, hops, hop] in a row: [batch, hops - count + 1, count * hop]."""
    # Ends counted from the end: what depends on the length would have to be computed in the graph.
    ends = [-after or None for after in reversed(range(count))]
    return torch.cat([hops[:, first:end] for first, end in enumerate(ends)], -1)


def as_tensor(table: NDArray[np.floating]) -> Tensor:
    return torch.tensor(table, dtype=torch.float32)
