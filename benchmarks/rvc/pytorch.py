"""The same networks in PyTorch, as the original tools run them; only where PyTorch is installed."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.rvc.graphs import (
    BLOCK_DILATIONS,
    BLOCK_KERNELS,
    CONTENT_CHANNELS,
    FEED_FORWARD,
    HEADS,
    LAYERS,
    POSITION_GROUPS,
    POSITION_KERNEL,
    STEM,
    STEM_CHANNELS,
    UPSAMPLE_CHANNELS,
    UPSAMPLE_KERNELS,
    UPSAMPLE_RATES,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_LATENT_CHANNELS = 192
_SLOPE = 0.1


def is_installed() -> bool:
    """Whether PyTorch can be imported."""
    return find_spec("torch") is not None


def content_encoder(samples: int, threads: int) -> Callable[[], object]:
    """Build the call that encodes so many samples once."""
    import torch  # noqa: PLC0415 - optional

    torch.set_num_threads(threads)
    stem = torch.nn.ModuleList()
    channels = 1
    for kernel, stride in STEM:
        stem.append(torch.nn.Conv1d(channels, STEM_CHANNELS, kernel, stride, bias=False))
        channels = STEM_CHANNELS
    norm = torch.nn.GroupNorm(STEM_CHANNELS, STEM_CHANNELS)
    project = torch.nn.Linear(STEM_CHANNELS, CONTENT_CHANNELS)
    places = torch.nn.Conv1d(
        CONTENT_CHANNELS,
        CONTENT_CHANNELS,
        POSITION_KERNEL,
        padding=POSITION_KERNEL // 2,
        groups=POSITION_GROUPS,
    )
    layer = torch.nn.TransformerEncoderLayer(
        CONTENT_CHANNELS, HEADS, FEED_FORWARD, activation="gelu", batch_first=True
    )
    layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).eval()
    wave = 0.1 * torch.randn(1, 1, samples)

    def run() -> object:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            x = wave
            for index, convolution in enumerate(stem):
                x = convolution(x)
                x = torch.nn.functional.gelu(norm(x) if index == 0 else x)
            x = project(x.transpose(1, 2))
            around = places(x.transpose(1, 2))[:, :, : x.shape[1]]
            return layers(x + torch.nn.functional.gelu(around).transpose(1, 2))

    return run


def decoder(frames: int, threads: int) -> Callable[[], object]:
    """Build the call that decodes so many frames once: most of a voice's time."""
    import torch  # noqa: PLC0415 - optional

    first = torch.nn.Conv1d(_LATENT_CHANNELS, UPSAMPLE_CHANNELS, 7, padding=3)
    stages = [_Stage(torch, index) for index in range(len(UPSAMPLE_RATES))]
    last = torch.nn.Conv1d(UPSAMPLE_CHANNELS >> len(UPSAMPLE_RATES), 1, 7, padding=3)
    latent = torch.randn(1, _LATENT_CHANNELS, frames)
    source = torch.randn(1, 1, frames * math.prod(UPSAMPLE_RATES))

    def run() -> object:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            x = first(latent)
            for stage in stages:
                x = stage(x, source)
            return torch.tanh(last(torch.nn.functional.leaky_relu(x, 0.01)))

    return run


class _Stage:
    """One stage of HiFi-GAN with a source."""

    def __init__(self, torch: Any, index: int) -> None:
        channels = UPSAMPLE_CHANNELS >> (index + 1)
        rate, kernel = UPSAMPLE_RATES[index], UPSAMPLE_KERNELS[index]
        stride = math.prod(UPSAMPLE_RATES[index + 1 :])
        self._functional = torch.nn.functional
        self._up = torch.nn.ConvTranspose1d(
            2 * channels, channels, kernel, rate, padding=(kernel - rate) // 2
        )
        self._noise = torch.nn.Conv1d(
            1,
            channels,
            1 if stride == 1 else 2 * stride,
            stride,
            padding=0 if stride == 1 else stride // 2,
        )
        self._blocks = [
            [
                [
                    torch.nn.Conv1d(
                        channels, channels, size, dilation=each, padding=(size - 1) * each // 2
                    )
                    for each in (dilation, 1)
                ]
                for dilation in BLOCK_DILATIONS
            ]
            for size in BLOCK_KERNELS
        ]

    def __call__(self, x: Any, source: Any) -> Any:
        x = self._up(self._functional.leaky_relu(x, _SLOPE)) + self._noise(source)
        total = 0
        for block in self._blocks:
            inner = x
            for pair in block:
                change = inner
                for convolution in pair:
                    change = convolution(self._functional.leaky_relu(change, _SLOPE))
                inner = inner + change
            total = total + inner
        return total / len(self._blocks)
