"""Turns the random numbers inside of an exported voice into inputs, so that it is repeatable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from importing.files.errors import VoiceFileError
from shared.process.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx

    from importing.rvc.exports.editing import EditedGraph

_NORMAL = frozenset({"RandomNormal", "RandomNormalLike"})
_UNIFORM = frozenset({"RandomUniform", "RandomUniformLike"})


@dataclass(frozen=True)
class DrawnNoise:
    """The noise that a graph drew itself, which is an input now.

    Attributes:
        channels: of the prior's noise; 0 if it drew none.
        harmonics: of the source's noise; 0 if it drew none.
    """

    channels: int
    harmonics: int


def random_outputs(graph: EditedGraph) -> list[str]:
    """Return the tensors of random numbers."""
    return [node.output[0] for node in graph.nodes if node.op_type in _NORMAL | _UNIFORM]


def replace_random_nodes(
    graph: EditedGraph, shapes: Mapping[str, Sequence[int]], frames: int, samples: int
) -> DrawnNoise:
    """Let the graph take `rnd` and `noise` where it draws numbers itself.

    Args:
        graph: which is changed.
        shapes: of the tensors of random numbers, in a trial run.
        frames: of that run.
        samples: of its audio.

    Returns:
        What the graph drew until now.

    Raises:
        VoiceFileError: a tensor is neither the prior's nor the source's noise nor initial phases.
    """
    channels, harmonics = 0, 0
    for node in list(graph.nodes):
        if node.op_type not in _NORMAL | _UNIFORM:
            continue
        shape = tuple(shapes[node.output[0]])
        if node.op_type in _UNIFORM and np.prod(shape, dtype=np.int64) < frames:
            _replace(graph, node, graph.constant(np.zeros(shape, np.float32)))
        elif node.op_type in _NORMAL and shape[:1] + shape[2:] == (1, frames) and not channels:
            _replace(graph, node, _unscaled(graph, node))
            channels = shape[-2]
        elif node.op_type in _NORMAL and shape[:2] == (1, samples) and not harmonics:
            _replace(graph, node, "noise")
            harmonics = shape[2] if len(shape) > 2 else 1  # noqa: PLR2004 - beyond [1, N]
        else:
            raise VoiceFileError(
                f"expected the random numbers of an RVC voice, found {quoted(node.op_type)}"
                f" of the shape {quoted(str(list(shape)))}."
            )
    return DrawnNoise(channels, harmonics)


def _replace(graph: EditedGraph, node: onnx.NodeProto, tensor: str) -> None:
    graph.redirect(node.output[0], tensor)
    graph.remove(node)


def _unscaled(graph: EditedGraph, node: onnx.NodeProto) -> str:
    """Return the input `rnd`, of which the graph's own factor is taken away again.

    The contract's noise comes scaled; an export that draws it scales it, too.
    """
    factor = _factor(graph, node.output[0])
    if factor is None:
        return "rnd"
    return graph.prepend("Mul", "rnd", graph.constant(np.array(1 / factor, np.float32)))


def _factor(graph: EditedGraph, tensor: str, steps: int = 2) -> float | None:
    """Return the constant that a tensor is multiplied by, at once or one product later."""
    for node in graph.consumers(tensor) if steps else ():
        if node.op_type != "Mul":
            continue
        for name in node.input:
            value = graph.value(name) if name != tensor else None
            if value is not None and value.size == 1 and value.item():
                return float(value.item())
        return _factor(graph, node.output[0], steps - 1)
    return None
