"""The graph that keeps its state, without the weights that other files of its bundle hold.

What those hold is left out: the engine adds it when it loads the graph.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from training.decoder.export import ExportError
from training.decoder.stream import StreamGraph

_INPUTS = ("wave", "f0", "voicing", "noise")
_FEWEST_SHARED_BYTES = 512
# The runtime may add up in another order.
_TOLERANCE = 1e-3


def example(graph: StreamGraph, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Something to try a graph with: wave, f0, voicing and noise."""
    random = torch.Generator().manual_seed(seed)
    frames = graph.spoken + graph.lookahead
    return (
        torch.randn(1, 160 * (frames + 2), generator=random) * 0.05,
        torch.rand(1, frames + 2, generator=random) * 100 + 280,
        torch.rand(1, frames, generator=random),
        torch.randn(1, 240 * (graph.spoken + 3), generator=random),
    )


def leave_out_weights(file: Path, *others: Path) -> None:
    """Leaves out what other files hold, too, and calls it by its name there."""
    model = onnx.load(file)
    theirs = {
        _content(weight): weight.name
        for other in others
        for weight in onnx.load(other).graph.initializer
    }
    shared = {
        weight.name: theirs[_content(weight)]
        for weight in model.graph.initializer
        if len(weight.raw_data) >= _FEWEST_SHARED_BYTES and _content(weight) in theirs
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


def _content(weight: onnx.TensorProto) -> tuple[int, tuple[int, ...], bytes]:
    return weight.data_type, tuple(weight.dims), weight.raw_data


def _own(name: str, shared: dict[str, str], taken: set[str]) -> str:
    """The name that a tensor gets, so that none of its own has the name of one that is added."""
    if name in shared:
        return shared[name]
    return f"stream.{name}" if name in taken else name


def check_stream(graph: StreamGraph, name: str, content: bytes) -> None:
    """Compares a graph that has all its weights with what was exported.

    Raises:
        ExportError: it speaks something else.
    """
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
