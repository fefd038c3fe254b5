"""One decoder that speaks with many people's voices: what an owner's decoder begins with.

Each speaker has a vector, which is added behind the first layer and changes every block
(feature-wise linear modulation: E. Perez et al., "FiLM: Visual reasoning with a general
conditioning layer", AAAI 2018), and scales of envelopes and melody; all the rest is shared.
`average.npz` holds such a decoder; `tools.training.average` makes such a file, see
tools/training/README.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tools.training.content.graphs import SIZE
from tools.training.decoder.network import CEPSTRUM_SIZE, Network

AVERAGE = Path(__file__).with_name("average.npz")
UNHEARD = 3
"""So many of the first numbers of the content a decoder ignores: they carry no words, and the small
encoder for streams cannot hear them."""
_DECODER = ("join.", "decoder.", "exit.")
_SMALL = {"exit.weight": 0.02, "exit.bias": 0.0}  # so that the first answers are nearly the mean
_VECTORS_BEGIN = 0.05
VECTOR_SIZE = SIZE.channels * (1 + 3 * SIZE.decoder_blocks)  # numbers that tell one speaker apart


@dataclass(frozen=True)
class Scale:
    """Mean and spread of a speaker's cepstra, float32 [35]; median and spread of log f0."""

    mean: NDArray[np.float32]
    spread: NDArray[np.float32]
    melody: tuple[float, float]


class SpeakerVectors(nn.Module):
    """Speaks with several voices: shared layers, and vectors, float32 [voices, VECTOR_SIZE]."""

    mean: Tensor
    spread: Tensor
    melody: Tensor

    def __init__(
        self, weights: Mapping[str, Tensor], vectors: NDArray[np.float32], scales: list[Scale]
    ) -> None:
        super().__init__()
        network = Network(SIZE)
        self.join, self.decoder, self.exit = network.join, network.decoder, network.exit
        self.load_state_dict(dict(weights), strict=False)
        self.vectors = nn.Parameter(torch.from_numpy(np.array(vectors, np.float32)))
        tables = {
            "mean": np.stack([scale.mean for scale in scales]),
            "spread": np.stack([scale.spread for scale in scales]),
            "melody": np.array([scale.melody for scale in scales]),
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.from_numpy(table.astype(np.float32)))

    def speak(
        self, content: Tensor, f0: Tensor, voicing: Tensor, who: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.hidden(content, f0, voicing, who)[1:]

    def hidden(
        self, content: Tensor, f0: Tensor, voicing: Tensor, who: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Last block's output [batch, frames, channels], cepstrum, voicing; `who` is [batch]."""
        middle, width = self.melody[who].unbind(1)
        melody = (torch.log(f0) - middle[:, None]) / width[:, None]
        heard = torch.cat([torch.zeros_like(content[:, :UNHEARD]), content[:, UNHEARD:]], 1)
        added, changes = part_vectors(self.vectors[who][:, :, None])
        x = self.join(torch.cat([heard, melody[:, None], voicing[:, None]], 1)) + added
        for block, (shift, gain) in zip(self.decoder, changes, strict=True):
            signal, gate = (block.wide(x) + shift).chunk(2, 1)
            x = x + block.narrow(torch.tanh(signal) * torch.sigmoid(gate)) * (1 + gain)
        out = self.exit(x).transpose(1, 2)
        cepstrum = out[..., :CEPSTRUM_SIZE] * self.spread[who][:, None] + self.mean[who][:, None]
        return x.transpose(1, 2), cepstrum, out[..., CEPSTRUM_SIZE]

    def alone(self, voice: int) -> Network:
        """The network of one voice: the weights hold its vector, the encoder has learnt nothing."""
        network = Network(SIZE)
        network.load_state_dict(
            {name: value for name, value in self.state_dict().items() if name.startswith(_DECODER)},
            strict=False,
        )
        added, changes = part_vectors(self.vectors[voice][None])
        with torch.no_grad():
            network.join.bias += added[0]
            network.join.weight[:, :UNHEARD] = 0
            for block, (shift, gain) in zip(network.decoder, changes, strict=True):
                block.wide.bias += shift[0]
                block.narrow.weight *= (1 + gain[0])[:, None, None]
                block.narrow.bias *= 1 + gain[0]
        network.cepstrum_mean.copy_(self.mean[voice])
        network.cepstrum_spread.copy_(self.spread[voice])
        network.melody_mean, network.melody_spread = self.melody[voice].tolist()
        return network.eval()


def part_vectors(vectors: Tensor) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
    added, rest = vectors.tensor_split([SIZE.channels], 1)
    blocks = rest.chunk(SIZE.decoder_blocks, 1)
    return added, [block.tensor_split([2 * SIZE.channels], 1) for block in blocks]


def begin(people: Mapping[str, Scale], average: Path = AVERAGE) -> SpeakerVectors:
    """The average decoder for people by name; whom it does not know begins as the mean of its own.

    Its own people are `en_READER`, `hina`, `mei` and `ned`.
    """
    with np.load(average) as kept:
        weights = {
            name: torch.from_numpy(kept[name].astype(np.float32))
            for name in kept.files
            if name.startswith(_DECODER)
        }
        known = dict(zip(kept["names"].tolist(), kept["speaker.weight"], strict=True))
    mean = np.mean(list(known.values()), 0)
    vectors = np.array([known.get(name, mean) for name in people], np.float32)
    return SpeakerVectors(weights, vectors, list(people.values()))


def begin_from_nothing(people: Mapping[str, Scale], seed: int) -> SpeakerVectors:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fresh = {
            name: value * 0 + _SMALL[name] * torch.randn(value.shape) if name in _SMALL else value
            for name, value in Network(SIZE).state_dict().items()
            if name.startswith(_DECODER)
        }
        vectors = _VECTORS_BEGIN * torch.randn(len(people), VECTOR_SIZE)
    return SpeakerVectors(fresh, vectors.numpy(), list(people.values()))


def save(voices: SpeakerVectors, names: Sequence[str], file: Path) -> None:
    """Write what `begin` reads, of the speakers who are named; matrices with half precision."""
    state = {name: value.numpy() for name, value in voices.state_dict().items()}
    weights = {name: value for name, value in state.items() if name.startswith(_DECODER)}
    weights["speaker.weight"] = state["vectors"][: len(names)]
    halved = {n: each.astype(np.float16) if each.ndim > 1 else each for n, each in weights.items()}
    with file.open("wb") as whole:
        np.savez(whole, names=np.array(names), **halved)
