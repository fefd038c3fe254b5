"""The shared encoder as it hears while somebody speaks: in windows, with what it heard before.

Each step of 20 ms attends to the 1.5 s before its window and to all of the window, whose end has
just come in. Keys and values of the steps before are kept. The weights are those of the shared
encoder; a low-rank update of each product (E. Hu et al., "LoRA", 2021) has learnt to do without
what comes later.
"""

import copy
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.training.content.encoder import (
    BANDS,
    CHANNELS,
    FLOOR,
    HEAD_WIDTH,
    HEADS,
    HOP,
    LAYERS,
    LOUDEST,
    RANGE,
    WIDTH,
    EncoderNetwork,
    LogMel,
    WhisperBlock,
)

RANK = 16
PAST = 75
"""Steps before a window that are attended to: 1.5 s."""
TURN = 1_500  # steps after which positions begin again: Whisper knows no more
PRIOR_LEVEL = -1.0  # decades of mel power that are the loudest before anything louder came
PRIOR_STEPS = 20  # of an average speaker, beside those that tell of this one
TELLING = 3.5  # decades below the loudest that tell how the speaker sounds
UNTAUGHT = 3
"""Directions of the greatest variance, which no window tells; a decoder speaks as well without."""
_UNHEARD = -1e4
_MEL_BEFORE = 2  # frames before a window that its convolutions hear

_CACHES = [f"{kind}_{layer}" for layer in range(LAYERS) for kind in ("keys", "values")]

Cache = Sequence[Tensor]
"""Keys and values of a block, [B, 8, P, 64] each."""


def mel_power(mel: LogMel, padded: Tensor) -> Tensor:
    """Mel power [1, T, 80] of a wave [1, 160 (T + 2)] from 240 samples before the first frame."""
    hops = padded.reshape(len(padded), -1, HOP)
    frames = torch.cat([hops[:, :-2], hops[:, 1:-1], hops[:, 2:]], -1)
    return ((frames @ mel.cosine) ** 2 + (frames @ mel.sine) ** 2) @ mel.filters


def decades(power: Tensor) -> Tensor:
    return torch.log(power.clamp_min(FLOOR)) * (1 / math.log(10.0))


def scale_mel(mel: Tensor, loudest: Tensor) -> Tensor:
    """Scale decades [B, T, 80] for Whisper by the loudest so far [B, T or 1, 1]."""
    return (torch.maximum(mel, loudest - RANGE) - loudest + LOUDEST + 4.0) / 4.0


def find_telling(mel: Tensor) -> Tensor:
    """Find the steps [B, T, 1] of a scaled mel spectrum [B, 2 T, 80] that are loud: 1 or 0."""
    loud = mel.amax(2).unflatten(1, (-1, 2)).amax(2)[..., None] * 4 - 4
    return torch.clamp(torch.ceil(loud - (LOUDEST - TELLING)), 0, 1)


class UpdatedProduct(nn.Module):
    def __init__(self, product: nn.Linear) -> None:
        super().__init__()
        self.product = product
        random = torch.Generator().manual_seed(1)
        down = torch.randn(RANK, product.in_features, generator=random)
        self.down = nn.Parameter(down / math.sqrt(product.in_features))
        self.up = nn.Parameter(torch.zeros(product.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        update = functional.linear(functional.linear(x, self.down), self.up)
        updated: Tensor = self.product(x) + update
        return updated


_PRODUCTS = ("queries_keys_values", "after_attention", "widen", "narrow")


class WindowedEncoder(nn.Module):
    def __init__(self, encoder: EncoderNetwork) -> None:
        super().__init__()
        self.mel, self.network = encoder.mel, copy.deepcopy(encoder.network)
        self.requires_grad_(False)
        for block in self.network.blocks:
            for name in _PRODUCTS:
                updated = UpdatedProduct(getattr(block, name))
                updated.product.bias.requires_grad_(True)
                setattr(block, name, updated)
        self.network.projection.requires_grad_(True)

    def taught(self) -> dict[str, nn.Parameter]:
        """Return the parameters that differ from those of the shared encoder."""
        return {name: each for name, each in self.named_parameters() if each.requires_grad}

    def load(self, file: Path) -> "WindowedEncoder":
        with np.load(file) as kept, torch.no_grad():
            for name, parameter in self.taught().items():
                parameter.copy_(torch.from_numpy(kept[name]))
        return self.eval()

    def merge(self) -> "WindowedEncoder":
        """Put the updates into the weights, in half precision as graphs store them."""
        for block in self.network.blocks:
            for name in _PRODUCTS:
                updated = getattr(block, name)
                with torch.no_grad():
                    weight = updated.product.weight + updated.up @ updated.down
                    updated.product.weight.copy_(weight.half())
                setattr(block, name, updated.product)
        return self

    def store(self, file: Path) -> None:
        values = {name: each.detach().numpy() for name, each in self.taught().items()}
        np.savez_compressed(file, **{name: each.astype("f2") for name, each in values.items()})

    def encode(
        self, mel: Tensor, steps: Tensor, bias: Tensor, before: Sequence[Cache] | None = None
    ) -> tuple[Tensor, list[Cache]]:
        """Hear [B, T, 128] of a scaled mel spectrum [B, 2 T + 3, 80], with what comes later.

        Two of its frames come before the first step, and one after the last. `steps` are the
        numbers of the steps, float32 [T] or [B, T]; `bias` [.., T, P + T] is 0 where they attend to
        P steps before, of which `before` are the keys and values, and to each other.
        """
        x = through(self.network.entry, mel.transpose(1, 2))
        x = through(self.network.narrow_in_time, x).transpose(1, 2) + positions_of(steps)
        caches = []
        for number, block in enumerate(self.network.blocks):
            x, cache = attend(block, x, bias, None if before is None else before[number])
            caches.append(cache)
        return self.network.projection(self.network.end(x)), caches


def through(convolution: nn.Conv1d, x: Tensor) -> Tensor:
    """A convolution of Whisper's without padding."""
    weight, bias = convolution.weight, convolution.bias
    return functional.gelu(functional.conv1d(x, weight, bias, convolution.stride))


def attend(
    block: WhisperBlock, x: Tensor, bias: Tensor, before: Cache | None
) -> tuple[Tensor, Cache]:
    """As `WhisperBlock`, with what was before."""
    parts = block.queries_keys_values(block.before_attention(x)).chunk(3, -1)
    queries, *cache = (part.unflatten(-1, (HEADS, HEAD_WIDTH)).transpose(1, 2) for part in parts)
    if before is not None:
        cache = [torch.cat(pair, 2) for pair in zip(before, cache, strict=True)]
    keys, values = cache
    weights = torch.softmax(queries @ keys.transpose(2, 3) * HEAD_WIDTH**-0.5 + bias, -1)
    x = x + block.after_attention((weights @ values).transpose(1, 2).flatten(2))
    return x + block.narrow(functional.gelu(block.widen(block.before_network(x)))), cache


def positions_of(steps: Tensor) -> Tensor:
    """Whisper's sinusoids [..., 512] for the numbers of steps."""
    scale = torch.exp(-math.log(10_000.0) / (WIDTH // 2 - 1) * torch.arange(WIDTH // 2))
    angle = (steps % TURN)[..., None] * scale
    return torch.cat([torch.sin(angle), torch.cos(angle)], -1)


def without_mean(heard: Tensor, total: Tensor) -> Tensor:
    """Take away the mean of what told of the speaker: its sum and steps, [B, T or 1, 129]."""
    usual = total[..., :CHANNELS] / (total[..., CHANNELS:] + PRIOR_STEPS)
    kept = torch.ones(CHANNELS)
    kept[:UNTAUGHT] = 0
    return (heard - usual) * kept


class WindowEar(nn.Module):
    """Hears `spoken` frames of 10 ms and `lookahead` frames after them, even numbers of each."""

    def __init__(self, encoder: WindowedEncoder, spoken: int, lookahead: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.spoken, self.frames = spoken, spoken + lookahead

    def state(self) -> dict[str, Tensor]:
        shapes: dict[str, tuple[int, ...]] = {
            "power": (1, _MEL_BEFORE, BANDS),
            "loudest": (1, 1, 1),
            "steps": (1, 1),
            "told": (1, 1, CHANNELS + 1),
        }
        for name in _CACHES:
            shapes[name] = (1, HEADS, PAST, HEAD_WIDTH)
        return {name: torch.zeros(shape) for name, shape in shapes.items()}

    def hear(self, wave: Tensor, kept: dict[str, Tensor]) -> Tensor:
        """Content of a window without its mean so far; see `tools.training.decoder.stream.Ear`."""
        spoken, steps = self.spoken // 2, self.frames // 2
        mel = self._scale(mel_power(self.encoder.mel, wave), kept)
        there = torch.arange(PAST) >= PAST - kept["steps"]
        bias = torch.cat([torch.where(there, 0.0, _UNHEARD), torch.zeros(1, steps)], 1)
        numbers = kept["steps"] + torch.arange(steps)
        pairs = zip(_CACHES[::2], _CACHES[1::2], strict=True)
        before = [[kept[keys], kept[values]] for keys, values in pairs]
        heard, caches = self.encoder.encode(mel, numbers, bias, before)
        new = (each[:, :, spoken : spoken + PAST] for cache in caches for each in cache)
        kept |= zip(_CACHES, new, strict=True)
        kept["steps"] = kept["steps"] + spoken
        telling = find_telling(mel[:, _MEL_BEFORE:-1])
        told = torch.cat([heard * telling, telling], 2)
        content = without_mean(heard, kept["told"] + told.sum(1, keepdim=True))
        kept["told"] = kept["told"] + told[:, :spoken].sum(1, keepdim=True)
        after = torch.cat([content[:, 1:], content[:, -1:]], 1)
        return torch.stack([content, (content + after) / 2], 2).flatten(1, 2).transpose(1, 2)

    def _scale(self, power: Tensor, kept: dict[str, Tensor]) -> Tensor:
        """Scale two frames before the window, it, and its last one once more: none follows."""
        power = torch.cat([kept["power"], power], 1)
        kept["power"] = power[:, self.spoken : self.spoken + _MEL_BEFORE]
        kept["loudest"] = torch.maximum(kept["loudest"], power.amax((1, 2), keepdim=True))
        loudest = decades(kept["loudest"].clamp_min(10**PRIOR_LEVEL))
        return scale_mel(decades(torch.cat([power, power[:, -1:]], 1)), loudest)
