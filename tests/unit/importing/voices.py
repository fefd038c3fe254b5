"""Tiny RVC voices of every kind with random weights, as RVC and its forks save them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.unit.importing.torch_files import archive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Weights = dict[str, NDArray[Any]]

UPSAMPLING = {
    24_000: ([10, 6, 2, 2], [20, 12, 4, 4]),
    32_000: ([10, 8, 2, 2], [20, 16, 4, 4]),
    40_000: ([10, 10, 2, 2], [16, 16, 4, 4]),
    44_100: ([9, 7, 7], [18, 14, 14]),
    48_000: ([12, 10, 2, 2], [24, 20, 4, 4]),
}
SPEAKERS = 3


@dataclass(frozen=True)
class Kind:
    """What a voice is like.

    Attributes:
        version: "v1" or "v2".
        sample_rate: in Hz.
        resblock: "1" or "2".
    """

    version: str = "v1"
    has_pitch: bool = True
    sample_rate: int = 40_000
    is_mrf: bool = False
    resblock: str = "1"
    channels: int = 32

    @property
    def features(self) -> int:
        return 768 if self.version == "v2" else 256

    @property
    def harmonics(self) -> int:
        return 9 if self.is_mrf else 1

    @property
    def config(self) -> list[Any]:
        rates, kernels = UPSAMPLING[self.sample_rate]
        dilations = [1, 3, 5] if self.resblock == "1" else [1, 3]
        return [
            *(1025, 32, 6, 8, 12, 2, 2, 3, 0, self.resblock),
            *([3, 5], [dilations, dilations], rates, self.channels, kernels),
            *(SPEAKERS, 4, self.sample_rate),
        ]


def weights_of(kind: Kind, seed: int = 0) -> Weights:
    """Draw the weights of a voice, as the file names them; float16."""
    drawn = _Drawn(np.random.default_rng(seed))
    inter, hidden, inner, speaker = 6, 8, 12, 4
    drawn.draw("emb_g.weight", SPEAKERS, speaker)
    drawn.linear("enc_p.emb_phone", hidden, kind.features)
    if kind.has_pitch:
        drawn.draw("enc_p.emb_pitch.weight", 256, hidden)
    for layer in range(2):
        name = f"enc_p.encoder.attn_layers.{layer}"
        for part in ("q", "k", "v", "o"):
            drawn.linear(f"{name}.conv_{part}", hidden, hidden, 1)
        for near in ("k", "v"):
            drawn.draw(f"{name}.emb_rel_{near}", 1, 21, hidden // 2)
        for norm in (f"norm_layers_1.{layer}", f"norm_layers_2.{layer}"):
            drawn.draw(f"enc_p.encoder.{norm}.gamma", hidden)
            drawn.draw(f"enc_p.encoder.{norm}.beta", hidden)
        drawn.linear(f"enc_p.encoder.ffn_layers.{layer}.conv_1", inner, hidden, 3)
        drawn.linear(f"enc_p.encoder.ffn_layers.{layer}.conv_2", hidden, inner, 3)
    drawn.linear("enc_p.proj", 2 * inter, hidden, 1)
    for layer in range(0, 8, 2):
        name = f"flow.flows.{layer}"
        drawn.linear(f"{name}.pre", hidden, inter // 2, 1)
        drawn.linear(f"{name}.post", inter // 2, hidden, 1)
        drawn.normed(f"{name}.enc.cond_layer", 6 * hidden, speaker, 1)
        for number in range(3):
            drawn.normed(f"{name}.enc.in_layers.{number}", 2 * hidden, hidden, 5)
            rows = hidden if number == 2 else 2 * hidden
            drawn.normed(f"{name}.enc.res_skip_layers.{number}", rows, hidden, 1)
    _draw_decoder(drawn, kind, inter, speaker)
    return drawn.weights


def _draw_decoder(drawn: _Drawn, kind: Kind, inter: int, speaker: int) -> None:
    rates, kernels = UPSAMPLING[kind.sample_rate]
    channels = kind.channels
    (drawn.normed if kind.is_mrf else drawn.linear)("dec.conv_pre", channels, inter, 7)
    drawn.linear("dec.cond", channels, speaker, 1)
    if kind.has_pitch:
        drawn.linear("dec.m_source.l_linear", 1, kind.harmonics)
    for stage, kernel in enumerate(kernels):
        width, stride = channels >> (stage + 1), math.prod(rates[stage + 1 :])
        name = f"dec.upsamples.{stage}" if kind.is_mrf else f"dec.ups.{stage}"
        drawn.normed(name, 2 * width, width, kernel, bias=width)
        if kind.has_pitch:
            taps = 1 if stride == 1 else 2 * stride - stride % 2
            drawn.linear(f"dec.noise_convs.{stage}", width, 1, taps)
        for block, taps in enumerate((3, 5)):
            for name in _layer_names(kind, stage, block):
                drawn.normed(name, width, width, taps)
    (drawn.normed if kind.is_mrf else drawn.linear)("dec.conv_post", 1, width, 7)
    if not kind.is_mrf:
        del drawn.weights["dec.conv_post.bias"]


def _layer_names(kind: Kind, stage: int, block: int) -> list[str]:
    if kind.is_mrf:
        name = f"dec.mrfs.{stage}.{block}.layers"
        return [f"{name}.{layer}.conv{half}" for layer in range(3) for half in (1, 2)]
    name = f"dec.resblocks.{2 * stage + block}"
    if kind.resblock == "2":
        return [f"{name}.convs.{layer}" for layer in range(2)]
    return [f"{name}.convs{half}.{layer}" for layer in range(3) for half in (1, 2)]


class _Drawn:
    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self.weights: Weights = {}

    def draw(self, name: str, *shape: int, scale: float | None = None) -> None:
        fan_in = math.prod(shape[1:]) if len(shape) > 1 else 4
        drawn = self._random.standard_normal(shape) * (scale or 1 / math.sqrt(fan_in))
        self.weights[name] = drawn.astype(np.float16)

    def linear(self, name: str, *shape: int) -> None:
        self.draw(f"{name}.weight", *shape)
        self.draw(f"{name}.bias", shape[0])

    def normed(self, name: str, *shape: int, bias: int | None = None) -> None:
        self.draw(f"{name}.weight_v", *shape)
        self.draw(f"{name}.weight_g", shape[0], *[1] * (len(shape) - 1), scale=1.0)
        self.draw(f"{name}.bias", bias or shape[0])


def checkpoint(kind: Kind, weights: Weights | None = None, **changes: Any) -> dict[str, Any]:
    """Return what RVC saves of a voice, with entries changed, or left out where None."""
    content: dict[str, Any] = {
        "weight": weights_of(kind) if weights is None else weights,
        "config": kind.config,
        "info": "12epoch",
        "sr": f"{kind.sample_rate // 1000}k",
        "f0": int(kind.has_pitch),
        "version": kind.version,
    } | ({"vocoder": "MRF HiFi-GAN"} if kind.is_mrf else {})
    content |= changes
    return {name: value for name, value in content.items() if value is not None}


def voice_bytes(kind: Kind | None = None, **changes: Any) -> bytes:
    return archive(checkpoint(kind or Kind(), **changes))


def variants() -> dict[str, Kind]:
    """Return one kind of voice of every sort, by name."""
    plain = Kind()
    kinds = {f"{rate // 1000}k": replace(plain, sample_rate=rate) for rate in UPSAMPLING}
    return kinds | {
        "v2": replace(plain, version="v2"),
        "without pitch": replace(plain, has_pitch=False),
        "v2 without pitch": replace(plain, version="v2", has_pitch=False, sample_rate=48_000),
        "mrf": replace(plain, is_mrf=True),
        "mrf 24k": replace(plain, is_mrf=True, sample_rate=24_000),
        "single convolutions": replace(plain, resblock="2"),
    }
