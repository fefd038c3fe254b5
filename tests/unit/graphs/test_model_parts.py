import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from shared.speech.engines.kokoro_graph import GraphWriter
from shared.speech.graphs.model_parts import ModelParts


def a_model() -> bytes:
    """x is doubled, what is doubled is shifted, and another output is taken from x."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["doubled"], name="/double"),
        helper.make_node("Add", ["doubled", "shift"], ["shifted"], name="/shift"),
        helper.make_node("Neg", ["y"], ["turned"], name="/turn"),
    ]
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        for name in ("shifted", "turned")
    ]
    shift = helper.make_tensor("shift", TensorProto.FLOAT, [2], [1.0, -1.0])
    tensors = [numpy_helper.from_array(np.array(2, np.float32), "two"), shift]
    tensors.append(helper.make_tensor("bytes", TensorProto.INT8, [3], [-3, 0, 127]))
    tensors.append(helper.make_tensor("sizes", TensorProto.INT64, [1, 2], [-1, 300]))
    graph = helper.make_graph(nodes, "g", floats, outputs, tensors)
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return bytes(model.SerializeToString())  # type: ignore[no-untyped-call] # of protobuf


def test_a_part_of_a_model_computes_the_same_and_needs_no_more() -> None:
    part = ModelParts(a_model()).until(["doubled", "shifted"])
    session = onnxruntime.InferenceSession(part)

    assert [each.name for each in session.get_inputs()] == ["x"]
    outputs = session.run(None, {"x": np.array([3, 4], np.float32)})
    assert [np.asarray(each).tolist() for each in outputs] == [[6, 8], [7, 7]]


def test_tensors_are_read_however_they_are_written() -> None:
    parts = ModelParts(a_model())

    assert [node.name for node in parts.nodes] == ["/double", "/shift", "/turn"]
    for name, values, kind in (
        ("two", 2.0, np.float32),
        ("shift", [1.0, -1.0], np.float32),
        ("bytes", [-3, 0, 127], np.int8),
        ("sizes", [[-1, 300]], np.int64),
    ):
        tensor = parts.tensor(name)
        assert tensor.tolist() == values
        assert tensor.dtype == np.dtype(kind)


def test_a_written_graph_is_a_valid_model() -> None:
    graph = GraphWriter()
    weights = graph.constant(np.array([[1, 2], [3, 4]], np.float32))
    product = graph.add("MatMul", "x", weights)
    graph.add("LeakyRelu", product, alpha=0.5, outputs=["y"])
    graph.add("ReduceSum", product, graph.constant([1]), keepdims=0, outputs=["sums"])
    graph.add("Transpose", product, perm=(1, 0), outputs=["turned"])
    model = graph.model({"x": (np.float32, 2)}, ["y", "sums", "turned"])
    session = onnxruntime.InferenceSession(model)
    outputs = session.run(None, {"x": np.array([[1, -1]], np.float32)})

    assert [np.asarray(each).tolist() for each in outputs] == [[[-1, -1]], [-4], [[-2], [-2]]]
