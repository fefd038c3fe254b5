"""The configuration of an RVC voice's network: sizes, rates, inputs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Never

from importing.files.errors import VoiceFileError
from shared.process.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

FRAMES_PER_SECOND = 100

_ENTRIES = 18
_MOST_CHANNELS = 4_096
_MOST_LAYERS = 64
_MOST_STAGES = 8
_MOST_SAMPLES_PER_FRAME = 1_920
_LOWEST_RATE, _HIGHEST_RATE = 8_000, 192_000
_DIGITS = re.compile(r"[0-9]{4,6}", re.ASCII)
_RATES = {"24k": 24_000, "32k": 32_000, "40k": 40_000, "44k": 44_100, "48k": 48_000}


@dataclass(frozen=True)
class NetworkSizes:
    """The sizes of a voice's network, as the list `config` of the file gives them.

    Attributes:
        inter_channels: of the prior, which is also the noise's.
        hidden_channels: of the text encoder and of the flow.
        filter_channels: inside of the text encoder's feed-forward layers.
        heads: of the attention.
        layers: of the text encoder.
        kernel_size: of the feed-forward layers.
        resblock: "1" has pairs of convolutions, "2" single ones.
        resblock_kernels: kernel size of every residual block of a stage.
        resblock_dilations: the dilations of every residual block of a stage.
        upsample_rates: by how much every stage lengthens.
        upsample_channels: before the first stage; every stage halves them.
        upsample_kernels: kernel size of every stage's transposed convolution.
        speaker_channels: of a speaker's embedding.
        sample_rate: of the audio in Hz.
    """

    inter_channels: int
    hidden_channels: int
    filter_channels: int
    heads: int
    layers: int
    kernel_size: int
    resblock: str
    resblock_kernels: tuple[int, ...]
    resblock_dilations: tuple[tuple[int, ...], ...]
    upsample_rates: tuple[int, ...]
    upsample_channels: int
    upsample_kernels: tuple[int, ...]
    speaker_channels: int
    sample_rate: int

    @property
    def hop(self) -> int:
        """Samples of audio per frame of features."""
        return math.prod(self.upsample_rates)


def read_sizes(config: object) -> NetworkSizes:
    """Read the list `config` of a voice.

    It has 18 entries (RVC, train/process_ckpt.py), or 19 where a fork puts the size of the features
    before the sample rate.

    Raises:
        VoiceFileError: an entry is missing or is not what it must be.
    """
    if not isinstance(config, list | tuple) or len(config) not in {_ENTRIES, _ENTRIES + 1}:
        found = f"{len(config)}" if isinstance(config, list | tuple) else quoted(config)
        raise VoiceFileError(f"'config': expected a list of 18 or 19 entries, found {found}.")
    entries = _Entries(config)
    sizes = NetworkSizes(
        inter_channels=entries.count(2, "inter_channels", _MOST_CHANNELS),
        hidden_channels=entries.count(3, "hidden_channels", _MOST_CHANNELS),
        filter_channels=entries.count(4, "filter_channels", _MOST_CHANNELS),
        heads=entries.count(5, "n_heads", _MOST_LAYERS),
        layers=entries.count(6, "n_layers", _MOST_LAYERS),
        kernel_size=entries.count(7, "kernel_size", _MOST_LAYERS),
        resblock=entries.resblock(9),
        resblock_kernels=entries.counts(10, "resblock_kernel_sizes", _MOST_LAYERS),
        resblock_dilations=entries.lists(11, "resblock_dilation_sizes", _MOST_LAYERS),
        upsample_rates=entries.counts(12, "upsample_rates", _MOST_SAMPLES_PER_FRAME),
        upsample_channels=entries.count(13, "upsample_initial_channel", _MOST_CHANNELS),
        upsample_kernels=entries.counts(14, "upsample_kernel_sizes", _MOST_SAMPLES_PER_FRAME),
        speaker_channels=entries.count(16, "gin_channels", _MOST_CHANNELS),
        sample_rate=entries.rate(len(config) - 1),
    )
    _check_sizes(sizes)
    return sizes


def sample_rate_of(value: object) -> int | None:
    """Read a sample rate as RVC's tools write it: 40000, "40k" or "40000"."""
    if isinstance(value, str):
        return _RATES.get(value) or (int(value) if _DIGITS.fullmatch(value) else None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class _Entries:
    """The entries of `config`, read one after the other."""

    values: Sequence[object]

    def count(self, at: int, name: str, most: int) -> int:
        return _count(self.values[at], name, most)

    def counts(self, at: int, name: str, most: int) -> tuple[int, ...]:
        return _counts(self.values[at], name, most)

    def lists(self, at: int, name: str, most: int) -> tuple[tuple[int, ...], ...]:
        values = self.values[at]
        if not isinstance(values, list | tuple) or not 1 <= len(values) <= _MOST_STAGES:
            _refuse(name, f"1 to {_MOST_STAGES} lists", values)
        return tuple(_counts(value, name, most) for value in values)

    def resblock(self, at: int) -> str:
        value = str(self.values[at]) if isinstance(self.values[at], str | int) else ""
        if value not in {"1", "2"}:
            _refuse("resblock", "'1' or '2'", self.values[at])
        return value

    def rate(self, at: int) -> int:
        value = sample_rate_of(self.values[at])
        if (
            value is None
            or not _LOWEST_RATE <= value <= FRAMES_PER_SECOND * _MOST_SAMPLES_PER_FRAME
        ):
            _refuse("sr", "a sample rate", self.values[at])
        return value


def _count(value: object, name: str, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        _refuse(name, f"a whole number from 1 to {most}", value)
    return value


def _counts(value: object, name: str, most: int) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _MOST_STAGES:
        _refuse(name, f"1 to {_MOST_STAGES} numbers", value)
    return tuple(_count(each, name, most) for each in value)


def _check_sizes(sizes: NetworkSizes) -> None:
    stages = len(sizes.upsample_rates)
    if len(sizes.upsample_kernels) != stages:
        _refuse("upsample_kernel_sizes", f"{stages} numbers", sizes.upsample_kernels)
    if len(sizes.resblock_dilations) != len(sizes.resblock_kernels):
        expected = f"{len(sizes.resblock_kernels)} lists"
        _refuse("resblock_dilation_sizes", expected, sizes.resblock_dilations)
    if sizes.upsample_channels % (1 << stages):
        _refuse("upsample_initial_channel", f"a multiple of {1 << stages}", sizes.upsample_channels)
    if sizes.inter_channels % 2:
        _refuse("inter_channels", "an even number", sizes.inter_channels)
    if sizes.hidden_channels % sizes.heads:
        _refuse("hidden_channels", f"a multiple of {sizes.heads}", sizes.hidden_channels)
    if sizes.hop * FRAMES_PER_SECOND != sizes.sample_rate:
        expected = f"numbers whose product is {sizes.sample_rate} / {FRAMES_PER_SECOND}"
        _refuse("upsample_rates", expected, list(sizes.upsample_rates))
    for rate, kernel in zip(sizes.upsample_rates, sizes.upsample_kernels, strict=True):
        if kernel < rate or ((kernel - rate) % 2 and kernel != 2 * rate):
            _refuse("upsample_kernel_sizes", f"a kernel for the rate {rate}", kernel)
    if any(kernel % 2 == 0 for kernel in sizes.resblock_kernels):
        _refuse("resblock_kernel_sizes", "odd numbers", list(sizes.resblock_kernels))


def _refuse(name: str, expected: str, found: object) -> Never:
    text = (
        str(found)[:80] if isinstance(found, list | tuple) and _is_plain(found) else quoted(found)
    )
    raise VoiceFileError(f"'config', entry {name}: expected {expected}, found {text}.")


def _is_plain(values: Sequence[object]) -> bool:
    return len(values) <= _MOST_STAGES and all(type(value) is int for value in values)
