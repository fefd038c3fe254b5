"""The network in a bundle's graph: its weights read out of it, and those of a decoder put into it.

The exporter names every weight after its place in the network (`training.export`), large ones with
`.half` behind it. Only the scale of the melody and the usual mel spectrum have no name of their own
and are found by what they do.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from training.features import BANDS
from training.network import MEAN_PRIOR_FRAMES, Network

_PREFIX = "network."
_HALF = ".half"
DECODER = ("join.", "decoder.", "exit.", "cepstrum_")
"""What a new character has of its own; everything else hears, and is shared."""


@dataclass(frozen=True)
class _Unnamed:
    """The names of the constants that the exporter gave none."""

    melody_mean: str
    melody_spread: str
    mel_mean: str


def load_network(file: Path) -> Network:
    """Read the network of a `harmonic` graph; only the head that tells phones is not in it."""
    model = onnx.load(file)
    values = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    unnamed = _find_unnamed(model, values)
    network = Network()
    state = {
        name.removeprefix(_PREFIX).removesuffix(_HALF): torch.tensor(value.astype(np.float32))
        for name, value in values.items()
        if name.startswith(_PREFIX)
    }
    state["mel_mean"] = torch.tensor(values[unnamed.mel_mean] / MEAN_PRIOR_FRAMES)
    missing = network.load_state_dict(state, strict=False)
    unexpected = [name for name in missing.missing_keys if not name.startswith("phones.")]
    if unexpected or missing.unexpected_keys:
        raise ValueError(f"{file}: expected the weights of a network, found none of {unexpected}")
    network.melody_mean = float(values[unnamed.melody_mean])
    network.melody_spread = float(values[unnamed.melody_spread])
    return network.eval()


def with_decoder(file: Path, network: Network) -> bytes:
    """Return a graph with another network's decoder; what hears and what synthesizes stay."""
    model = onnx.load(file)
    values = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    unnamed = _find_unnamed(model, values)
    state = network.state_dict()
    new: dict[str, Any] = {
        unnamed.melody_mean: network.melody_mean,
        unnamed.melody_spread: network.melody_spread,
    }
    for name in values:
        plain = name.removeprefix(_PREFIX).removesuffix(_HALF)
        if name.startswith(_PREFIX) and plain.startswith(DECODER):
            new[name] = state[plain].numpy()
    for one in model.graph.initializer:
        if one.name in new:
            value: NDArray[Any] = np.asarray(new[one.name], values[one.name].dtype)
            one.CopyFrom(numpy_helper.from_array(value, one.name))
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def _find_unnamed(model: onnx.ModelProto, values: dict[str, NDArray[Any]]) -> _Unnamed:
    """Follow f0 through its logarithm, a difference and a quotient."""
    path, name = [], "f0"
    for kind in ("Log", "Sub", "Div"):
        node = next((n for n in model.graph.node if n.op_type == kind and n.input[0] == name), None)
        if node is None:
            raise ValueError("expected a graph that `training.export` wrote, found another")
        path.append(node)
        name = node.output[0]
    (mel,) = (name for name, value in values.items() if value.shape == (BANDS,))
    return _Unnamed(path[1].input[1], path[2].input[1], mel)
