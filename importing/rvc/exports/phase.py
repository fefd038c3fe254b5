"""Repairs the phase of sources that exports before November 2024 have.

Those sources find whole turns of the phase by enlarging a running sum of the frames' turns to
samples. Where the pitch is 0 the sum is constant, the enlarged one is so only up to rounding, and
every step down counts as a turn: thousands in a second. The running sum over samples then goes so
far from 0 that single precision has no digits left for the phase. It needs no such turns at all: in
double precision the sum of minutes is exact, and whole turns are taken away from it afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from importing.files.graph_builder import DOUBLE, FLOAT

if TYPE_CHECKING:
    import onnx

    from importing.rvc.exports.editing import EditedGraph

_FARTHEST = 6


def repair_phase(graph: EditedGraph) -> bool:
    """Let every running sum over samples run in double precision; return whether there was one."""
    repaired = False
    for node in list(graph.nodes):
        if node.op_type == "CumSum":
            increments = _increments(graph, node)
            if increments is not None:
                _replace(graph, node, increments)
                repaired = True
    return repaired


def _increments(graph: EditedGraph, running_sum: onnx.NodeProto) -> str | None:
    """Return the tensor of every sample's turn, if that is what is summed up with a correction."""
    summed = graph.producer(running_sum.input[0])
    if summed is None or summed.op_type != "Add":
        return None
    return next((name for name in summed.input if _is_enlarged(graph, name)), None)


def _is_enlarged(graph: EditedGraph, tensor: str) -> bool:
    """Whether a tensor is frames repeated for every sample."""
    for _ in range(_FARTHEST):
        node = graph.producer(tensor)
        if node is None:
            return False
        if node.op_type in {"Resize", "Upsample"}:
            modes = [each.s for each in node.attribute if each.name == "mode"]
            return modes in ([], [b"nearest"])
        if node.op_type not in {"Transpose", "Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze"}:
            return False
        tensor = node.input[0]
    return False


def _replace(graph: EditedGraph, running_sum: onnx.NodeProto, increments: str) -> None:
    exact = graph.insert(running_sum, "Cast", increments, to=DOUBLE)
    total = graph.insert(running_sum, "CumSum", exact, running_sum.input[1])
    one = graph.constant(np.array(1.0, np.float64))
    turns = graph.insert(running_sum, "Mod", total, one, fmod=1)
    phase = graph.insert(running_sum, "Cast", turns, to=FLOAT)
    graph.redirect(running_sum.output[0], phase)
    graph.remove(running_sum)
