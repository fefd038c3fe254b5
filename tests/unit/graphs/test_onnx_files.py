import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    SparseTensorProto,
    TensorProto,
    helper,
    numpy_helper,
)

from shared.speech.graphs import onnx_files
from shared.speech.graphs.onnx_files import (
    MAX_DEPTH,
    STANDARD_DOMAINS,
    PreloadedGraphs,
    Tensor,
    UnsafeModelError,
    inspect_model,
)
from tests.unit.graphs import small_graphs


def identity() -> GraphProto:
    return small_graphs.graph_of(helper.make_node("Identity", ["x"], ["y"]))


def external(name: str = "weights", location: str = "../../etc/passwd") -> TensorProto:
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    return tensor


def constant(tensor: TensorProto) -> GraphProto:
    graph = small_graphs.graph_of(helper.make_node("Add", ["x", "c"], ["y"]))
    graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=tensor))
    return graph


def conditional(branch: GraphProto) -> GraphProto:
    node = helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=identity())
    return small_graphs.graph_of(node)


def nested(graph: GraphProto, depth: int) -> GraphProto:
    for _ in range(depth):
        graph = conditional(graph)
    return graph


def foreign() -> GraphProto:
    return small_graphs.graph_of(helper.make_node("RunShell", ["x"], ["y"], domain="com.evil"))


def sparse(values: TensorProto, indices: TensorProto) -> SparseTensorProto:
    tensor = SparseTensorProto()
    tensor.values.CopyFrom(values)
    tensor.indices.CopyFrom(indices)
    tensor.dims.append(9)
    return tensor


def refuse(model: GraphProto | ModelProto | bytes, match: str) -> None:
    if isinstance(model, GraphProto):
        model = small_graphs.model(model)
    content = model if isinstance(model, bytes) else small_graphs.serialized(model)
    with pytest.raises(UnsafeModelError, match=match):
        inspect_model(content)


def test_the_inputs_and_outputs_are_read_with_type_and_shape() -> None:
    graph = small_graphs.gain_graph(2.0)
    no_shape, sequence = (small_graphs.tensor(name, []) for name in ("any", "sequence"))
    no_shape.type.tensor_type.ClearField("shape")
    sequence.type.Clear()
    sequence.type.sequence_type.elem_type.CopyFrom(identity().input[0].type)
    graph.input.extend(
        [
            small_graphs.tensor("gain", []),  # an initializer, and so no input
            small_graphs.tensor("integers", [1, None, 3], TensorProto.INT64),
            small_graphs.tensor("half", [], TensorProto.FLOAT16),
            small_graphs.tensor("long", [2**40], TensorProto.DOUBLE),
            no_shape,
            sequence,
        ]
    )

    facts = inspect_model(small_graphs.content(graph))

    assert facts.outputs == {"converted": Tensor("converted", "float32", (1, "n"))}
    assert facts.inputs["any"].shape is None
    assert {name: str(tensor) for name, tensor in facts.inputs.items()} == {
        "audio": "float32 [1, n]",
        "integers": "int64 [1, ?, 3]",
        "half": "float16 []",
        "long": "float64 [1099511627776]",
        "any": "float32 of any shape",
        "sequence": "no tensor of any shape",
    }


@pytest.mark.parametrize(("name", "told"), [("x", "x"), ("a\n\u202e\x1b[2J", r"a\n\u202e\x1b[2J")])
def test_a_type_that_is_given_twice_is_refused_by_the_inputs_quoted_name(
    name: str, told: str
) -> None:
    kind = small_graphs.tensor("x", [1, "n"]).type.SerializeToString()
    graph = identity()
    graph.ClearField("input")
    extra = field(1, name.encode()) + 2 * field(2, kind)
    refuse(
        field(7, graph.SerializeToString() + field(11, extra)),
        re.escape(f"the type of '{told}' more than once"),
    )


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def test_a_foreign_operator_is_refused_by_name_and_domain() -> None:
    refuse(foreign(), r"operator 'RunShell': .* ai\.onnx, .*'com\.evil'")


@pytest.mark.parametrize("domain", ["com.microsoft", "ai.onnx ", "AI.ONNX"])
def test_a_foreign_operator_set_is_refused(domain: str) -> None:
    refuse(small_graphs.model(identity(), ["", domain]), f"operator set: .* found '{domain}'")


def test_a_foreign_operator_in_a_nested_graph_is_refused() -> None:
    listed = AttributeProto(name="branches", type=AttributeProto.GRAPHS)
    listed.graphs.extend([identity(), foreign()])

    refuse(nested(foreign(), 1), "RunShell")
    refuse(nested(foreign(), 5), "RunShell")
    refuse(with_attribute(listed), "RunShell")


def test_too_many_or_too_deeply_nested_operators_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse(nested(identity(), MAX_DEPTH + 1), "nested at most")
    monkeypatch.setattr(onnx_files, "MAX_NODES", 1)
    inspect_model(small_graphs.content(identity()))
    refuse(constant(INSIDE), "expected at most 1 operators")


def test_local_functions_and_training_information_are_refused() -> None:
    model = small_graphs.model(identity())
    model.functions.append(
        helper.make_function("", "Identity", ["x"], ["y"], [], [helper.make_opsetid("", 18)])
    )
    refuse(model, "local function 'Identity'")

    model = small_graphs.model(identity())
    model.training_info.add().algorithm.CopyFrom(foreign())
    refuse(model, "training information")


def with_initializer(tensor: TensorProto | SparseTensorProto) -> GraphProto:
    graph = identity()
    if isinstance(tensor, TensorProto):
        graph.initializer.append(tensor)
    else:
        graph.sparse_initializer.append(tensor)
    return graph


def with_attribute(attribute: AttributeProto) -> GraphProto:
    graph = identity()
    graph.node[0].attribute.append(attribute)
    return graph


SPARSE, SPARSES = AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS
INSIDE = numpy_helper.from_array(np.zeros(1, np.int64), "inside")


@pytest.mark.parametrize(
    "graph",
    [
        with_initializer(external()),
        with_initializer(sparse(external(), INSIDE)),
        with_initializer(sparse(INSIDE, external())),
        constant(external()),
        conditional(constant(external())),
        conditional(with_initializer(external())),
        with_attribute(
            AttributeProto(name="t", type=AttributeProto.TENSORS, tensors=[INSIDE, external()])
        ),
        with_attribute(
            AttributeProto(name="s", type=SPARSE, sparse_tensor=sparse(external(), INSIDE))
        ),
        with_attribute(
            AttributeProto(name="s", type=SPARSES, sparse_tensors=[sparse(INSIDE, external())])
        ),
    ],
)
def test_external_data_are_refused_anywhere_in_the_file(graph: GraphProto) -> None:
    refuse(graph, r"tensor 'weights': .* external data in '\.\./\.\./etc/passwd'")


def test_a_mere_mention_of_external_data_is_refused() -> None:
    marked = numpy_helper.from_array(np.zeros(4, np.float32), "marked")
    marked.data_location = TensorProto.EXTERNAL
    refuse(with_initializer(marked), "tensor 'marked'")
    named = external()
    named.data_location = TensorProto.DEFAULT
    refuse(with_initializer(named), "tensor 'weights'")
    refuse(with_initializer(external(location="*/_ORT_MEM_ADDR_/*")), "external data")


def test_two_graphs_in_one_file_are_refused() -> None:
    refuse(2 * small_graphs.content(identity()), "found 2 graphs")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"hello, this is no model",
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x3a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        b"\x3b\x3c",
        b"\x00\x00\x00\x00ORTM" + b"\x00" * 64,
    ],
)
def test_a_file_that_is_not_a_model_is_refused(content: bytes) -> None:
    refuse(content, "expected an ONNX model, found")


def test_a_model_that_is_cut_off_is_refused_or_has_lost_a_whole_field() -> None:
    content = small_graphs.content(small_graphs.gain_graph(0.5))
    for length in range(len(content)):
        try:
            onnx.ModelProto.FromString(content[:length])
        except DecodeError:
            refuse(content[:length], "expected")


def all_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for item in graph.sparse_initializer:
        yield from (item.values, item.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for item in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (item.values, item.indices)
            for inner in (attribute.g, *attribute.graphs):
                yield from all_tensors(inner)


def all_domains(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield node.domain
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from all_domains(inner)


RICH = small_graphs.serialized(small_graphs.model(conditional(constant(INSIDE)), ["", "ai.onnx"]))


@given(
    st.lists(st.tuples(st.integers(0, len(RICH) - 1), st.integers(0, 255)), min_size=1, max_size=6)
)
@settings(deadline=None, max_examples=500)
@example([])
def test_accepted_models_also_pass_the_onnx_librarys_checker(
    changes: list[tuple[int, int]],
) -> None:
    content = bytearray(RICH)
    for position, byte in changes:
        content[position] = byte
    try:
        inspect_model(bytes(content))
    except UnsafeModelError:
        return
    try:
        model = onnx.ModelProto.FromString(bytes(content))
    except DecodeError:
        return  # the runtime parses with the same library and refuses it
    domains = [*all_domains(model.graph), *(opset.domain for opset in model.opset_import)]
    assert all(domain.encode() in STANDARD_DOMAINS for domain in domains)
    assert not model.functions
    for tensor in all_tensors(model.graph):
        assert tensor.data_location == TensorProto.DEFAULT
        assert not tensor.external_data


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "mei" / "harmonic.onnx"
    path.parent.mkdir()
    path.write_bytes(b"a graph")
    return path


def test_what_was_read_ahead_is_given_out_once_with_its_hash_as_it_was_then(
    tmp_path: Path, graph: Path
) -> None:
    with ThreadPoolExecutor(1) as thread:
        preloaded = PreloadedGraphs(tmp_path, thread)
    graph.write_bytes(b"another")

    content = preloaded.read(graph)

    assert content.data == b"a graph"
    assert content.sha256 == hashlib.sha256(b"a graph").hexdigest()
    assert preloaded.read(graph).data == b"another"
    preloaded.close()
    graph.unlink()
    with pytest.raises(FileNotFoundError):
        preloaded.read(graph)


def test_a_file_beyond_the_limit_is_read_when_it_is_asked_for(
    tmp_path: Path, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_files, "MOST_BYTES", 3)

    with ThreadPoolExecutor(1) as thread:
        preloaded = PreloadedGraphs(tmp_path, thread)
    graph.write_bytes(b"another")

    assert preloaded.read(graph).data == b"another"
