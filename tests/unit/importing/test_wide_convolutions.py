from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tools.importing.wide_convolutions import widen_convolutions

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHANNELS = 4


class Sketch:
    """A graph that is put together node by node; `x` is its input, `y` its output."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.weights: list[TensorProto] = []
        self.nodes: list[Any] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        value = self.random.standard_normal(shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolution(self, kind: str, x: str, output: str, **attributes: Any) -> str:
        weights = [self.weight(CHANNELS, CHANNELS, 3), self.weight(CHANNELS)]
        return self.add(kind, [x, *weights], output, **attributes)

    def model(self, *outputs: str, opset: int = 17) -> ModelProto:
        def value(name: str) -> Any:
            shape: list[str | int | None] = [1, CHANNELS, f"{name}_length"]
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        graph = helper.make_graph(
            self.nodes, "sketch", [value("x")], [value(name) for name in outputs], self.weights
        )
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def decoder() -> Sketch:
    """Make what the decoders of voices are made of, behind something that is none of it."""
    sketch = Sketch()
    sketch.add("Exp", ["x"], "before")
    x = sketch.convolution("Conv", "before", "a", pads=[1, 1], dilations=[1], strides=[1], group=1)
    x = sketch.add("LeakyRelu", [x], "b", alpha=0.1)
    x = sketch.convolution("ConvTranspose", x, "c", strides=[2], output_padding=[1], pads=[1, 1])
    one = sketch.convolution("Conv", x, "d", pads=[3, 3], dilations=[3])
    two = sketch.convolution("Conv", "c", "e", pads=[1, 1])
    sketch.add("Add", [one, two], "f")
    sketch.add("Div", ["f", sketch.weight()], "g")
    sketch.add("Tanh", ["g"], "y")
    return sketch


def run(model: ModelProto, outputs: list[str] | None = None) -> list[NDArray[np.float32]]:
    x = np.random.default_rng(1).standard_normal((1, CHANNELS, 50)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return [np.asarray(each) for each in session.run(outputs, {"x": x})]


def kinds(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_a_decoder_computes_the_same_with_an_axis_more_and_others_get_what_they_need() -> None:
    sketch = decoder()
    sketch.add("Neg", ["c"], "z")
    model = sketch.model("y", "z")
    before = run(model)

    assert widen_convolutions(model) == 4

    assert kinds(model)[:2] == ["Exp", "Unsqueeze"]
    assert (kinds(model).count("Unsqueeze"), kinds(model).count("Squeeze")) == (1, 2)
    assert {len(weight.dims) for weight in model.graph.initializer} <= {0, 1, 4}
    for one, other in zip(before, run(model), strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other).max() < 1e-5


def test_what_stands_before_something_else_is_left_alone() -> None:
    sketch = decoder()
    sketch.add("Transpose", ["y"], "z", perm=[0, 2, 1])
    model = sketch.model("z")
    before = model.SerializeToString()

    assert widen_convolutions(model) == 0
    assert model.SerializeToString() == before


@pytest.mark.parametrize("attributes", [{"auto_pad": "SAME_UPPER"}, {"pads": [1, 1]}])
def test_a_convolution_that_is_not_understood_is_left_alone(attributes: dict[str, Any]) -> None:
    sketch = Sketch()
    if "auto_pad" in attributes:
        sketch.convolution("Conv", "x", "y", **attributes)
    else:  # its weights are computed
        weight = sketch.add("Neg", [sketch.weight(CHANNELS, CHANNELS, 3)], "w")
        sketch.add("Conv", ["x", weight], "y", **attributes)

    assert widen_convolutions(sketch.model("y")) == 0
