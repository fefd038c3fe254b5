"""The network in a bundle's graphs: its weights read out of them, and others put in.

The exporter names every weight after its place in the network (`training.decoder.export`), large
ones with `.half` behind it. Only the scale of the melody and the usual mel spectrum have no name
of their own and are found by what they do.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from training.decoder.export import ExportError
from training.decoder.network import MEAN_PRIOR_FRAMES, Network, Size
from training.sound.features import BANDS

_NETWORK, _STREAM, _HEARING, _HALF = "network.", "stream.", "hearing.", ".half"
_CONTENT, _HEARS = "content", ("entry.", "encoder.", "content.", "mel_mean")

Values = dict[str, NDArray[Any]]


def load_network(speaking: Path, hearing: Path | None = None, size: Size | None = None) -> Network:
    """Read a network out of a character's graphs, with weights of half precision.

    Args:
        speaking: `harmonic.onnx`. One that is given content has only what speaks.
        hearing: the graph of the role `content_stream`, for the rest of the network. Without it the
            encoder of a network that is given content has learnt nothing.
        size: of the network.

    Raises:
        ExportError: a graph holds other weights than such a network has.
    """
    model = onnx.load(speaking)
    values = _values(model)
    every = values if hearing is None else values | _values(onnx.load(hearing))
    state = {
        _place(name): torch.tensor(value.astype(np.float32))
        for name, value in every.items()
        if _NETWORK in name
    }
    # The export stores the prior of the mean spectrum as one product.
    for prior in (value for value in every.values() if value.shape == (BANDS,)):
        state["mel_mean"] = torch.tensor(prior / MEAN_PRIOR_FRAMES)
    network = Network(size)
    lacking = network.state_dict().keys() ^ state.keys()
    is_given_content = hearing is None and _CONTENT in {one.name for one in model.graph.input}
    if {name for name in lacking if not (is_given_content and name.startswith(_HEARS))}:
        raise ExportError(f"{speaking.name}: expected the weights of this network, found others")
    network.load_state_dict(state, strict=False)
    mean, spread = _melody_scale(model)
    network.melody_mean, network.melody_spread = float(values[mean]), float(values[spread])
    return network.eval()


def with_weights(content: bytes, network: Network) -> bytes:
    """Return a graph with another network's weights; what synthesizes stays.

    Args:
        content: of `harmonic.onnx` or of `harmonic_stream.onnx`.
        network: with the weights and the same usual mel spectrum.

    Raises:
        ExportError: it is a graph of another kind.
    """
    model = onnx.load_from_string(content)
    values, state = _values(model), network.state_dict()
    mean, spread = _melody_scale(model)
    new: dict[str, Any] = {mean: network.melody_mean, spread: network.melody_spread}
    new |= {name: state[_place(name)].numpy() for name in values if _NETWORK in name}
    for one in model.graph.initializer:
        if one.name in new:
            value: NDArray[Any] = np.asarray(new[one.name], values[one.name].dtype)
            one.CopyFrom(numpy_helper.from_array(value, one.name))
    changed: bytes = model.SerializeToString()
    return changed


def _values(model: onnx.ModelProto) -> Values:
    return {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}


def _place(name: str) -> str:
    """The place in the network of the weight that a graph calls so."""
    own = name.removeprefix(_STREAM).removeprefix(_HEARING)
    return own.removeprefix(_NETWORK).removesuffix(_HALF)


def _melody_scale(model: onnx.ModelProto) -> tuple[str, str]:
    """The names of what is subtracted from the logarithm of f0, and of what divides the rest."""
    made_by = {node.output[0]: node for node in model.graph.node if node.output}
    for quotient in model.graph.node:
        difference = made_by.get(quotient.input[0]) if quotient.op_type == "Div" else None
        if difference is not None and difference.op_type == "Sub":
            logarithm = made_by.get(difference.input[0])
            if logarithm is not None and logarithm.op_type == "Log":
                return difference.input[1], quotient.input[1]
    raise ExportError("expected a graph that takes a melody, found another")
