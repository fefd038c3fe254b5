"""Networks of any size with random weights: only their speed and their memory are real."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from onnx import helper, numpy_helper

OPSET: Final = 18


class RandomGraph:
    """A graph that grows node by node; signals are [1, C, T], rows are [1, T, C].

    Each method adds nodes and returns the name of their output.
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: npt.ArrayLike, kind: type = np.float32) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def sizes(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def weights(self, *shape: int, fan_in: int) -> str:
        """Add random weights that preserve the size of their input."""
        drawn = self._random.standard_normal(shape, np.float32)
        return self.constant(drawn / math.sqrt(fan_in))

    def linear(self, x: str, before: int, after: int) -> str:
        product = self.node("MatMul", x, self.weights(before, after, fan_in=before))
        return self.node("Add", product, self.constant(np.zeros(after)))

    def convolution(self, x: str, before: int, after: int, kernel: int, dilation: int = 1) -> str:
        """Convolve a signal over time; its length stays."""
        reach = (kernel - 1) * dilation
        weights = self.weights(after, before, kernel, fan_in=kernel * before)
        return self.node(
            "Conv",
            *(x, weights, self.constant(np.zeros(after))),
            kernel_shape=[kernel],
            dilations=[dilation],
            pads=[reach // 2, reach - reach // 2],
        )

    def upsampling(self, x: str, channels: int, kernel: int, rate: int) -> str:
        """Lengthen a signal and halve its channels."""
        weights = self.weights(channels, channels // 2, kernel, fan_in=channels * kernel // rate)
        return self.node(
            "ConvTranspose",
            *(x, weights, self.constant(np.zeros(channels // 2))),
            kernel_shape=[kernel],
            strides=[rate],
            pads=[(kernel - rate) // 2] * 2,
        )

    def transposed(self, x: str) -> str:
        """Turn rows into a signal, or a signal into rows."""
        return self.node("Transpose", x, perm=[0, 2, 1])

    def normalised_sum(self, x: str, y: str, channels: int) -> str:
        ones, zeros = self.constant(np.ones(channels)), self.constant(np.zeros(channels))
        return self.node("LayerNormalization", self.node("Add", x, y), ones, zeros)

    def gelu(self, x: str) -> str:
        """Add the rectifier of HuBERT, in the form that ONNX Runtime fuses."""
        curve = self.node("Erf", self.node("Div", x, self.constant(math.sqrt(2))))
        product = self.node("Mul", x, self.node("Add", curve, self.constant(1)))
        return self.node("Mul", product, self.constant(0.5))

    def attention(self, x: str, channels: int, heads: int, positions: str | None = None) -> str:
        """Add self-attention over rows, disentangled (DeBERTa) where positions are given."""
        split = self.sizes(1, -1, heads, channels // heads)

        def heads_of(rows: str, perm: Sequence[int]) -> str:
            shaped = self.node("Reshape", self.linear(rows, channels, channels), split)
            return self.node("Transpose", shaped, perm=perm)

        queries, values = heads_of(x, [0, 2, 1, 3]), heads_of(x, [0, 2, 1, 3])
        keys = heads_of(x, [0, 2, 3, 1])
        scores = self.node("MatMul", queries, keys)
        if positions is not None:
            # The part of the positions is constant; only an optimised graph computes it once.
            for side in (queries, self.node("Transpose", keys, perm=[0, 1, 3, 2])):
                across = self.node("MatMul", side, heads_of(positions, [0, 2, 3, 1]))
                mean = self.node("ReduceMean", across, self.sizes(-1))
                scores = self.node("Add", scores, mean)
        scale = math.sqrt((1 if positions is None else 3) * channels // heads)
        shares = self.node("Softmax", self.node("Div", scores, self.constant(scale)), axis=-1)
        heard = self.node("Transpose", self.node("MatMul", shares, values), perm=[0, 2, 1, 3])
        return self.linear(
            self.node("Reshape", heard, self.sizes(1, -1, channels)), channels, channels
        )

    def model(self, inputs: Sequence[Any], output: Any, metadata: dict[str, str]) -> Any:
        """Return the model, whose output is that of the last node."""
        self._nodes[-1].output[0] = output.name
        graph = helper.make_graph(self._nodes, "random", inputs, [output], self._weights)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        helper.set_model_props(model, metadata)
        return model
