"""Small content encoders: two layers over frames of 400 samples every 320, as HuBERT has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from tools.importing.graph_builder import FLOAT, GraphBuilder


def pitch_model(hertz: float = 220.0) -> bytes:
    """Make a pitch model that hears one frequency wherever there is sound."""
    graph = GraphBuilder()
    wave = graph.input("waveform", FLOAT, (1, "N"))
    graph.input("threshold", FLOAT, ())
    frames = graph.node(
        "AveragePool",
        graph.node("Abs", graph.node("Unsqueeze", wave, graph.sizes(1))),
        kernel_shape=[160],
        strides=[160],
        pads=[80, 80],
    )
    heard = graph.node("Greater", frames, graph.number(1e-3))
    found = graph.node("Where", heard, graph.number(hertz), graph.number(0.0))
    graph.output(graph.node("Squeeze", found, graph.sizes(1)), "pitchf", FLOAT, (1, "T"))
    return graph.model("pitch", {})


def encoder(
    widths: tuple[int, ...] = (768,),
    *,
    rank: int = 3,
    channels_first: bool = False,
    stride: int = 320,
    seed: int = 0,
) -> bytes:
    """Make an encoder with one output per width: `embed0`, `embed1` and so on."""
    random = np.random.default_rng(seed)
    graph = GraphBuilder()
    shape: tuple[Any, ...] = (1, "N") if rank == 2 else (1, 1, "N")
    wave = graph.input("source", TensorProto.FLOAT, shape)
    wave = graph.node("Reshape", wave, graph.sizes(1, 1, -1))
    kernel = graph.constant(random.standard_normal((64, 1, 400)).astype(np.float32) / 20)
    frames = graph.node("Conv", wave, kernel, strides=[stride])
    frames = graph.node("Transpose", graph.node("Tanh", frames), perm=[0, 2, 1])
    # As real encoders have it: what is quiet comes out as loud as the rest.
    frames = graph.node("LayerNormalization", frames, graph.constant(np.ones(64, np.float32)))
    for number, width in enumerate(widths):
        weight = graph.constant(random.standard_normal((64, width)).astype(np.float32) / 8)
        features = graph.node("MatMul", frames, weight)
        order: tuple[Any, ...] = (1, "T", width)
        if channels_first:
            features = graph.node("Transpose", features, perm=[0, 2, 1])
            order = (1, width, "T")
        graph.output(features, f"embed{number}", FLOAT, order)
    return graph.model("encoder", {})
