"""The synthesizer of RVC in float64, term by term, to compare the graphs with; slow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.importing.voice_file import VoiceFile

Array = NDArray[np.float64]


class Reference:
    """One voice."""

    def __init__(self, voice: VoiceFile) -> None:
        self._sizes = voice.sizes
        self._weights: dict[str, Array] = {
            name: value.astype(np.float64) for name, value in voice.weights.items()
        }

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Array:
        """Compute the audio [1, 1, N] of inputs of the contract, of which all frames count."""
        g = self._weights["emb_g.weight"][inputs["ds"][0]]
        mean, log_spread = self._prior(inputs)
        z = mean + np.exp(log_spread) * inputs["rnd"][0]
        z = self._flow(z, g)
        source = self._source(inputs) if "pitchf" in inputs else None
        return self._decoded(z, g, source)[None]

    def _prior(self, inputs: Mapping[str, NDArray[Any]]) -> tuple[Array, Array]:
        sizes = self._sizes
        x = inputs["phone"][0] @ self._weights["enc_p.emb_phone.weight"].T
        x = x + self._weights["enc_p.emb_phone.bias"]
        if "pitch" in inputs:
            x = x + self._weights["enc_p.emb_pitch.weight"][inputs["pitch"][0]]
        x = leaky(x * math.sqrt(sizes.hidden_channels), 0.1).T
        for layer in range(sizes.layers):
            attended = self._attended(f"enc_p.encoder.attn_layers.{layer}", x)
            x = self._normalised(f"enc_p.encoder.norm_layers_1.{layer}", x + attended)
            name = f"enc_p.encoder.ffn_layers.{layer}"
            inner = np.maximum(self._same(f"{name}.conv_1", x), 0)
            x = x + self._same(f"{name}.conv_2", inner)
            x = self._normalised(f"enc_p.encoder.norm_layers_2.{layer}", x)
        stats = self._same("enc_p.proj", x)
        return stats[: sizes.inter_channels], stats[sizes.inter_channels :]

    def _attended(self, name: str, x: Array) -> Array:
        heads, length = self._sizes.heads, x.shape[1]
        depth = self._sizes.hidden_channels // heads
        near_keys = self._weights[f"{name}.emb_rel_k"][0]
        near_values = self._weights[f"{name}.emb_rel_v"][0]
        reach = len(near_keys) // 2
        query, key, value = (self._same(f"{name}.conv_{part}", x) for part in "qkv")
        mixed = np.zeros_like(query)
        for head in range(heads):
            rows = slice(head * depth, (head + 1) * depth)
            for i in range(length):
                scores = np.array(
                    [
                        query[rows, i] @ (key[rows, j] + row_or_zero(near_keys, j - i + reach))
                        for j in range(length)
                    ]
                )
                shares = np.exp(scores / math.sqrt(depth))
                shares /= shares.sum()
                for j in range(length):
                    near = row_or_zero(near_values, j - i + reach)
                    mixed[rows, i] += shares[j] * (value[rows, j] + near)
        return self._same(f"{name}.conv_o", mixed)

    def _normalised(self, name: str, x: Array) -> Array:
        spread = np.sqrt(x.var(axis=0) + 1e-5)
        normed = (x - x.mean(axis=0)) / spread
        gain, shift = self._weights[f"{name}.gamma"], self._weights[f"{name}.beta"]
        normalised: Array = normed * gain[:, None] + shift[:, None]
        return normalised

    def _same(self, name: str, x: Array, dilation: int = 1) -> Array:
        weight = self._weights[f"{name}.weight"]
        reach = (weight.shape[2] - 1) * dilation
        padded = np.pad(x, ((0, 0), (reach // 2, reach - reach // 2)))
        return convolved(padded, weight, self._weights.get(f"{name}.bias"), dilation=dilation)

    def _flow(self, z: Array, g: Array) -> Array:
        half = len(z) // 2
        for layer in (6, 4, 2, 0):
            z = z[::-1]
            name = f"flow.flows.{layer}"
            h = self._same(f"{name}.pre", z[:half])
            shift = self._same(f"{name}.post", self._wave_net(f"{name}.enc", h, g))
            z = np.concatenate([z[:half], z[half:] - shift])
        return z

    def _wave_net(self, name: str, x: Array, g: Array) -> Array:
        hidden = len(x)
        condition = self._same(f"{name}.cond_layer", g[:, None])
        total = np.zeros_like(x)
        for layer in range(3):
            inner = self._same(f"{name}.in_layers.{layer}", x)
            inner = inner + condition[2 * hidden * layer : 2 * hidden * (layer + 1)]
            gated = np.tanh(inner[:hidden]) / (1 + np.exp(-inner[hidden:]))
            onward = self._same(f"{name}.res_skip_layers.{layer}", gated)
            x = x + onward[:hidden]
            total += onward[-hidden:]
        return total

    def _source(self, inputs: Mapping[str, NDArray[Any]]) -> Array:
        hertz = np.repeat(inputs["pitchf"][0].astype(np.float64), self._sizes.hop)
        phase = np.cumsum(hertz / self._sizes.sample_rate)
        weight = self._weights["dec.m_source.l_linear.weight"][0]
        orders = np.arange(1, len(weight) + 1)
        voiced = (hertz > 0)[:, None]
        level = np.where(voiced, 0.003, 0.1 / 3)
        waves = 0.1 * np.sin(2 * np.pi * phase[:, None] * orders) * voiced
        waves = waves + level * inputs["noise"][0]
        bias = self._weights["dec.m_source.l_linear.bias"]
        mixed: Array = np.tanh(waves @ weight + bias)[None]
        return mixed

    def _decoded(self, z: Array, g: Array, source: Array | None) -> Array:
        sizes = self._sizes
        x = self._same("dec.conv_pre", z) + self._same("dec.cond", g[:, None])
        for stage, rate in enumerate(sizes.upsample_rates):
            x = self._upsampled(stage, leaky(x, 0.1), rate)
            if source is not None:
                x = x + self._shortened(stage, source)
            blocks = [self._block(stage, block, x) for block in range(len(sizes.resblock_kernels))]
            x = np.mean(blocks, axis=0)
        audio: Array = np.tanh(self._same("dec.conv_post", leaky(x, 0.01)))
        return audio

    def _upsampled(self, stage: int, x: Array, rate: int) -> Array:
        name = f"dec.ups.{stage}"
        name = name if f"{name}.weight" in self._weights else f"dec.upsamples.{stage}"
        weight = self._weights[f"{name}.weight"]
        kernel, length = weight.shape[2], x.shape[1]
        full = np.zeros((weight.shape[1], (length - 1) * rate + kernel))
        for t in range(length):
            full[:, t * rate : t * rate + kernel] += np.einsum("c,cdk->dk", x[:, t], weight)
        begin = (kernel - rate + 1) // 2
        bias = self._weights[f"{name}.bias"][:, None]
        return full[:, begin : begin + length * rate] + bias

    def _shortened(self, stage: int, source: Array) -> Array:
        stride = math.prod(self._sizes.upsample_rates[stage + 1 :])
        weight = self._weights[f"dec.noise_convs.{stage}.weight"]
        padding = (weight.shape[2] - stride) // 2
        padded = np.pad(source, ((0, 0), (padding, padding)))
        bias = self._weights[f"dec.noise_convs.{stage}.bias"]
        return convolved(padded, weight, bias)[:, ::stride]

    def _block(self, stage: int, block: int, x: Array) -> Array:
        count = len(self._sizes.resblock_kernels)
        for layer, dilation in enumerate(self._sizes.resblock_dilations[block]):
            mrf = f"dec.mrfs.{stage}.{block}.layers.{layer}"
            plain = f"dec.resblocks.{stage * count + block}"
            pairs = (
                (f"{mrf}.conv1", f"{mrf}.conv2"),
                (f"{plain}.convs1.{layer}", f"{plain}.convs2.{layer}"),
                (f"{plain}.convs.{layer}",),
            )
            first, *others = next(each for each in pairs if f"{each[0]}.weight" in self._weights)
            change = self._same(first, leaky(x, 0.1), dilation)
            for name in others:
                change = self._same(name, leaky(change, 0.1))
            x = x + change
        return x


def leaky(x: Array, slope: float) -> Array:
    """Rectify."""
    return np.where(x > 0, x, slope * x)


def row_or_zero(table: Array, number: int) -> Array:
    """Return a row, or zeros where there is none."""
    return table[number] if 0 <= number < len(table) else np.zeros(table.shape[1])


def convolved(x: Array, weight: Array, bias: Array | None, dilation: int = 1) -> Array:
    """Convolve [C, T] with [D, C, K], without padding."""
    length = x.shape[1] - (weight.shape[2] - 1) * dilation
    total = np.zeros((len(weight), length))
    for tap in range(weight.shape[2]):
        total += weight[:, :, tap] @ x[:, tap * dilation : tap * dilation + length]
    return total if bias is None else total + bias[:, None]
