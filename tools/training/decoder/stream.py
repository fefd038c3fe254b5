"""The conversion as a graph that keeps its state: a few frames in, as many frames out.

Of what follows the frames that are spoken, it hears `LOOKAHEAD` frames. What the convolutions need
of the frames before is kept from one run to the next instead of being computed again (as in T. Le
Paine et al., "Fast Wavenet generation algorithm", 2016).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn
from torch.nn import functional

from shared.speech.graphs.onnx_files import with_weights_of
from tools.training.decoder.export import ExportError
from tools.training.decoder.fast_transforms import FoldedVoice, join_samples
from tools.training.decoder.network import (
    OUTPUT_HOP,
    VOICING_SHARPNESS,
    GatedBlock,
    Network,
    add_hops,
)

FRAMES = 12
LOOKAHEAD = 4
_HALF_HOP = OUTPUT_HOP // 2
_TAIL_HOPS = 4  # that a frame speaks after its own two
_FILTER_REACH = 7  # samples on either side of the low-pass filter


class Ear(Protocol):
    """The encoder of a stream, which keeps its own state."""

    def state(self) -> dict[str, Tensor]: ...

    def hear(self, wave: Tensor, kept: dict[str, Tensor]) -> Tensor:
        """Content [1, size, frames + lookahead] of `wave` as in StreamGraph; change the state."""


class StreamGraph(nn.Module):
    """Speaks `frames` frames at a time, those from `begin` to `end`.

    Inputs (f32): `wave` [1, 160 (frames + lookahead + 2)] from 240 samples before frame `begin`,
    `f0` [1, frames + lookahead + 2] from two frames before, `voicing` [1, frames + lookahead],
    `noise` [1, (frames + 3) * 240] from two hops before, and the state.
    Outputs: `audio` [1, 240 frames], a hop late, and the next state.
    """

    def __init__(
        self, network: Network, ear: Ear, frames: int = FRAMES, lookahead: int = LOOKAHEAD
    ) -> None:
        super().__init__()
        self.network = network
        self.ear = ear
        self.voice = FoldedVoice()
        self.spoken = frames
        self.lookahead = lookahead

    def state(self) -> dict[str, Tensor]:
        channels = self.network.size.channels
        shapes = {
            "phase": (1, 1),
            "tail": (2, 1, _TAIL_HOPS, _HALF_HOP),
            "join": (1, self.network.size.content + 2, 1),
        }
        for name, block in self._blocks():
            shapes[name] = (1, channels, dilation_of(block))
        return {name: torch.zeros(shape) for name, shape in shapes.items()} | self.ear.state()

    def forward(
        self, wave: Tensor, f0: Tensor, voicing: Tensor, noise: Tensor, *state: Tensor
    ) -> tuple[Tensor, ...]:
        kept = dict(zip(self.state(), state, strict=True))
        content = self.ear.hear(wave, kept)
        cepstrum, logit = self._speak(content, f0[:, 2:], voicing, kept)
        voiced = torch.sigmoid(logit * VOICING_SHARPNESS)
        audio = self._sound(cepstrum, voiced, f0, noise, kept)
        return audio, *kept.values()

    def _speak(
        self, content: Tensor, f0: Tensor, voicing: Tensor, kept: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        network = self.network
        melody = network.melody(f0)
        x = torch.cat([content, melody[:, None], voicing[:, None]], 1)
        needed = self.spoken + 1 + sum(dilation_of(block) for _, block in self._blocks())
        # What follows the last frame that was heard counts as that one.
        held = x[..., -1:].expand(-1, -1, max(0, needed - x.shape[-1]))
        x = self._after(torch.cat([x[..., :needed], held], -1), "join", kept)
        x = functional.conv1d(x, network.join.weight, network.join.bias)
        for name, block in self._blocks():
            x = gated(block, self._after(x, name, kept))
        return network.parameters_of(network.exit(x))

    def _sound(
        self, cepstrum: Tensor, voiced: Tensor, f0: Tensor, noise: Tensor, kept: dict[str, Tensor]
    ) -> Tensor:
        hops = self.spoken + 3
        pulses, cycles = self.voice.pulses_between(f0[:, :hops], f0[:, 1 : hops + 1], kept["phase"])
        kept["phase"] = torch.frac(cycles[:, self.spoken : self.spoken + 1]).float()
        inner = slice(OUTPUT_HOP - _FILTER_REACH, _FILTER_REACH - OUTPUT_HOP)
        tonal = functional.conv1d((pulses - noise)[:, None, inner], self.voice.limit)[:, 0]
        noise = noise[:, OUTPUT_HOP:-OUTPUT_HOP]
        frames = self.voice.spoken_frames(cepstrum, voiced, noise, tonal)
        total = add_hops(frames, _HALF_HOP)
        sounding = total[..., :_TAIL_HOPS, :] + kept["tail"]
        total = torch.cat([sounding, total[..., _TAIL_HOPS:, :]], -2)
        kept["tail"] = total[..., self.spoken : self.spoken + _TAIL_HOPS, :]
        return join_samples(total[..., : self.spoken, :].flatten(-2))

    def _after(self, x: Tensor, name: str, kept: dict[str, Tensor]) -> Tensor:
        """Put the frames before in front of what a convolution takes, and keep those for later."""
        before = kept[name]
        joined = torch.cat([before, x], -1)
        kept[name] = joined[..., self.spoken : self.spoken + before.shape[-1]]
        return joined

    def _blocks(self) -> Iterator[tuple[str, GatedBlock]]:
        for index, block in enumerate(self.network.decoder):
            yield f"decoder_{index}", block


def dilation_of(block: GatedBlock) -> int:
    return int(block.wide.dilation[0])


def gated(block: GatedBlock, joined: Tensor) -> Tensor:
    reach = dilation_of(block)
    signal, gate = functional.conv1d(
        joined, block.wide.weight, block.wide.bias, dilation=reach
    ).chunk(2, 1)
    return joined[..., reach:-reach] + block.narrow(torch.tanh(signal) * torch.sigmoid(gate))


_INPUTS = ("wave", "f0", "voicing", "noise")
_FEWEST_SHARED_BYTES = 512
# The runtime may add up in another order.
_TOLERANCE = 1e-3


def example(graph: StreamGraph, seed: int = 0) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    frames = graph.spoken + graph.lookahead
    return (
        torch.randn(1, 160 * (frames + 2), generator=random) * 0.05,
        torch.rand(1, frames + 2, generator=random) * 100 + 280,
        torch.rand(1, frames, generator=random),
        torch.randn(1, 240 * (graph.spoken + 3), generator=random),
    )


def take_in_weights(file: Path, *others: Path) -> None:
    """Stores what `leave_out_weights` left to other files."""
    content = file.read_bytes()
    for other in others:
        content = with_weights_of(content, other.read_bytes())
    model = onnx.load_from_string(content)
    used = {name for node in model.graph.node for name in node.input}
    kept = [weight for weight in model.graph.initializer if weight.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.save(model, file)


def leave_out_weights(file: Path, *others: Path) -> None:
    """Leaves out what other files hold, too, and calls it by its name there."""
    model = onnx.load(file)
    theirs = {
        content_of(weight): weight.name
        for other in others
        for weight in onnx.load(other).graph.initializer
    }
    shared = {
        weight.name: theirs[content_of(weight)]
        for weight in model.graph.initializer
        if len(weight.raw_data) >= _FEWEST_SHARED_BYTES and content_of(weight) in theirs
    }
    kept = [weight for weight in model.graph.initializer if weight.name not in shared]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    taken = {weight.name for other in others for weight in onnx.load(other).graph.initializer}
    for weight in model.graph.initializer:
        weight.name = _own(weight.name, shared, taken)
    for node in model.graph.node:
        node.input[:] = [_own(name, shared, taken) for name in node.input]
        node.output[:] = [_own(name, shared, taken) for name in node.output]
    onnx.save(model, file)


def content_of(weight: onnx.TensorProto) -> tuple[int, tuple[int, ...], bytes]:
    return weight.data_type, tuple(weight.dims), weight.raw_data


def _own(name: str, shared: dict[str, str], taken: set[str]) -> str:
    if name in shared:
        return shared[name]
    return f"stream.{name}" if name in taken else name


def check_stream(graph: StreamGraph, name: str, content: bytes) -> None:
    """Compare a graph that has all its weights with the network; ExportError if it differs."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    expected_state = list(graph.state().values())
    state = [tensor.numpy() for tensor in expected_state]
    for step in range(3):
        inputs = example(graph, step)
        with torch.no_grad():
            expected, *expected_state = graph(*inputs, *expected_state)
        names = [*_INPUTS, *graph.state()]
        values = [*(tensor.numpy() for tensor in inputs), *state]
        audio, *state = session.run(None, dict(zip(names, values, strict=True)))
        difference = float(np.abs(audio - expected.numpy()).max())
        if difference > _TOLERANCE * float(expected.abs().max()):
            raise ExportError(f"{name}: expected what the network speaks, found another sound")
