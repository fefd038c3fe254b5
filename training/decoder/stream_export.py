"""Writes the graph that keeps its state, from the bundle's graph and without its weights.

`python -m training.decoder.stream_export` reads the network out of `harmonic.onnx`, so that no
training and no checkpoint is needed. What both files would hold is left out of the second: the
engine adds the weights of the first when it loads it.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from shared.characters.manifest import MANIFEST
from speech.bundles.weights import with_weights_of
from training.decoder.export import ExportError, write_graph
from training.decoder.graph_weights import load_network
from training.decoder.stream import FRAMES, StreamGraph

GRAPH = "harmonic_stream.onnx"
ROLE = "harmonic_stream"
_INPUTS = ("wave", "f0", "voicing", "noise")
_FEWEST_SHARED_BYTES = 512
# The runtime may add up in another order.
_TOLERANCE = 1e-3


def export_stream(bundle: Path, frames: int = FRAMES) -> Path:
    """Writes the graph into a bundle that has `harmonic.onnx`, and names it in the manifest.

    Raises:
        ExportError: the written graph differs from the network.
    """
    whole = bundle / "harmonic.onnx"
    graph = StreamGraph(load_network(whole), frames).eval()
    file = bundle / GRAPH
    state = graph.state()
    write_graph(
        file,
        graph,
        (*example(graph), *state.values()),
        input_names=[*_INPUTS, *state],
        output_names=["audio", *(f"next_{name}" for name in state)],
    )
    leave_out_weights(file, whole)
    check_stream(graph, file.name, with_weights_of(file.read_bytes(), whole.read_bytes()))
    _enter(file, bundle / MANIFEST)
    return file


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


def _enter(file: Path, manifest: Path) -> None:
    content = file.read_bytes()
    fields = json.loads(manifest.read_text(encoding="utf-8"))
    fields["graphs"][ROLE] = {
        "file": file.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }
    text = json.dumps(fields, ensure_ascii=False, indent=2) + "\n"
    manifest.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the graph into the bundle that is named."""
    parser = argparse.ArgumentParser(
        prog="python -m training.decoder.stream_export", description=__doc__
    )
    parser.add_argument("bundle", type=Path, help="folder with harmonic.onnx")
    parser.add_argument("--frames", type=int, default=FRAMES, help="frames spoken at a time")
    parsed = parser.parse_args(arguments)
    file = export_stream(parsed.bundle, parsed.frames)
    print(f"wrote {file} ({file.stat().st_size / 1e3:.0f} kB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
