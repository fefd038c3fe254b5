"""Inspects an ONNX file before the runtime loads it: what it needs, and whether that is safe.

Only the fields that matter are read, directly from the protocol buffers wire format
(https://protobuf.dev/programming-guides/encoding/; field numbers from onnx.proto of ONNX 1.17), so
that the container does not need the ONNX library. A malformed file is refused.
"""

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from shared.runtime.quoting import printable, quoted

STANDARD_DOMAINS = frozenset({b"", b"ai.onnx"})
MAX_DEPTH = 16
MAX_NODES = 100_000

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_WIRE_TYPES = frozenset({_VARINT, _FIXED64, _BYTES, _FIXED32})
_LONGEST_VARINT = 10
_VARINT_BITS = 0xFFFF_FFFF_FFFF_FFFF
_CONTINUED = 0x80
_LONGEST_NAME = 200

_MODEL_GRAPH, _MODEL_OPSET, _MODEL_TRAINING, _MODEL_FUNCTION = 7, 8, 20, 25
_MODEL = frozenset({_MODEL_GRAPH, _MODEL_OPSET, _MODEL_TRAINING, _MODEL_FUNCTION})
_OPSET = frozenset({1})
_FUNCTION_NAME = 1
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 5, 11, 12
_GRAPH_SPARSE_INITIALIZER = 15
_GRAPH = frozenset(
    {_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_SPARSE_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT}
)
_NODE_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN = 4, 5, 7
_NODE = frozenset({_NODE_ATTRIBUTE, _NODE_DOMAIN})
_ATTRIBUTE_TENSORS = frozenset({5, 10})
_ATTRIBUTE_GRAPHS = frozenset({6, 11})
_ATTRIBUTE_SPARSE_TENSORS = frozenset({22, 23})
_ATTRIBUTE = _ATTRIBUTE_TENSORS | _ATTRIBUTE_GRAPHS | _ATTRIBUTE_SPARSE_TENSORS
_SPARSE_TENSOR_PARTS = frozenset({1, 2})
_TENSOR_NAME, _TENSOR_EXTERNAL_DATA, _TENSOR_DATA_LOCATION = 8, 13, 14
_TENSOR = frozenset({_TENSOR_NAME, _TENSOR_EXTERNAL_DATA, _TENSOR_DATA_LOCATION})
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TYPE_TENSOR = 1
_TENSOR_TYPE_ELEMENT, _TENSOR_TYPE_SHAPE = 1, 2
_SHAPE_DIMENSION = 1
_DIMENSION_VALUE, _DIMENSION_NAME = 1, 2
_DIMENSION = frozenset({_DIMENSION_VALUE, _DIMENSION_NAME})

_ELEMENT_TYPES: Final = (
    *("", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool"),
    *("float16", "float64", "uint32", "uint64", "", "", "bfloat16"),
)
"""Names of TensorProto.DataType by number, without complex numbers."""


class UnsafeModelError(ValueError):
    """An ONNX file that will not be run; the message is one sentence without the file's name."""


@dataclass(frozen=True)
class Tensor:
    """An input or output of a graph; a size that is not fixed has a name or None."""

    name: str
    element_type: str
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.element_type} of any shape"
        sizes = ", ".join("?" if size is None else printable(str(size)) for size in self.shape)
        return f"{self.element_type} [{sizes}]"


@dataclass(frozen=True)
class ModelFacts:
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]


def inspect_model(content: bytes) -> ModelFacts:
    """Refuse a model that needs more than the standard operators and the data in its file.

    Raises UnsafeModelError if it is malformed, uses an operator of another domain than ai.onnx,
    defines functions, or refers to data outside of the file.
    """
    reader = _ModelReader()
    try:
        reader.read_model(memoryview(content))
    except _MalformedError as error:
        raise UnsafeModelError(f"expected an ONNX model, found {error}.") from error
    return ModelFacts(MappingProxyType(reader.inputs), MappingProxyType(reader.outputs))


class _MalformedError(ValueError):
    """Bytes that are not a protocol buffers message of the expected kind."""


@dataclass
class _ModelReader:
    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    nodes: int = 0

    def read_model(self, message: memoryview) -> None:
        graphs = []
        for number, value in _messages(message, _MODEL, "ModelProto"):
            if number == _MODEL_GRAPH:
                graphs.append(value)
            elif number == _MODEL_OPSET:
                for _, domain in _messages(value, _OPSET, "OperatorSetIdProto"):
                    check_domain(domain, "operator set")
            elif number == _MODEL_TRAINING:
                raise UnsafeModelError(
                    "expected a graph for inference, found training information."
                )
            elif number == _MODEL_FUNCTION:
                raise UnsafeModelError(
                    f"expected standard operators only, found the local function"
                    f" {quoted(read_text(value, _FUNCTION_NAME))}."
                )
        if len(graphs) != 1:
            raise _MalformedError(f"{len(graphs)} graphs")
        self._read_graph(graphs[0], depth=0)

    def _read_graph(self, message: memoryview, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise UnsafeModelError(f"expected graphs nested at most {MAX_DEPTH} deep, found more.")
        initialised = set()
        for number, value in _messages(message, _GRAPH, "GraphProto"):
            if number == _GRAPH_NODE:
                self._read_node(value, depth)
            elif number == _GRAPH_INITIALIZER:
                initialised.add(check_tensor(value))
            elif number == _GRAPH_SPARSE_INITIALIZER:
                check_sparse_tensor(value)
            elif depth == 0 and number in {_GRAPH_INPUT, _GRAPH_OUTPUT}:
                tensor = read_value_info(value)
                (self.inputs if number == _GRAPH_INPUT else self.outputs)[tensor.name] = tensor
        if depth == 0:
            for name in initialised:
                self.inputs.pop(name, None)

    def _read_node(self, message: memoryview, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise UnsafeModelError(f"expected at most {MAX_NODES} operators, found more.")
        for number, value in _messages(message, _NODE, "NodeProto"):
            if number == _NODE_ATTRIBUTE:
                self._read_attribute(value, depth)
            elif number == _NODE_DOMAIN:
                check_domain(value, f"operator {quoted(read_text(message, _NODE_TYPE))}")

    def _read_attribute(self, message: memoryview, depth: int) -> None:
        for number, value in _messages(message, _ATTRIBUTE, "AttributeProto"):
            if number in _ATTRIBUTE_TENSORS:
                check_tensor(value)
            elif number in _ATTRIBUTE_SPARSE_TENSORS:
                check_sparse_tensor(value)
            elif number in _ATTRIBUTE_GRAPHS:
                self._read_graph(value, depth + 1)


def check_domain(domain: memoryview, what: str) -> None:
    if domain not in STANDARD_DOMAINS:
        raise UnsafeModelError(
            f"{what}: expected the standard domain ai.onnx, found {quoted(_decode(domain))}."
        )


def check_tensor(message: memoryview) -> str:
    """Refuse a tensor whose data are in another file; return its name."""
    name = ""
    location: str | None = None
    for number, wire, value in read_fields(message, _TENSOR):
        if number == _TENSOR_NAME and isinstance(value, memoryview):
            name = _decode(value)
        elif number == _TENSOR_EXTERNAL_DATA and isinstance(value, memoryview):
            key, entry = read_text(value, _ENTRY_KEY), read_text(value, _ENTRY_VALUE)
            location = entry if key == "location" else location or ""
        elif number == _TENSOR_DATA_LOCATION and wire == _VARINT and value != 0:
            location = location or ""
    if location is not None:
        where = f" in {quoted(location)}" if location else ""
        raise UnsafeModelError(
            f"tensor {quoted(name)}: expected its data inside the file, found external data{where}."
        )
    return name


def check_sparse_tensor(message: memoryview) -> None:
    for _, value in _messages(message, _SPARSE_TENSOR_PARTS, "SparseTensorProto"):
        check_tensor(value)


def read_value_info(message: memoryview) -> Tensor:
    name = read_text(message, _VALUE_NAME)
    kind = _only(message, _VALUE_TYPE, name)
    tensor = None if kind is None else _only(kind, _TYPE_TENSOR, name)
    if tensor is None:
        return Tensor(name, "no tensor", None)
    element = [value for _, _, value in read_fields(tensor, frozenset({_TENSOR_TYPE_ELEMENT}))]
    code = element[-1] if element else 0
    is_known = isinstance(code, int) and code < len(_ELEMENT_TYPES)
    type_name = _ELEMENT_TYPES[code] if is_known else ""  # type: ignore[index] # it is a number
    shape = _only(tensor, _TENSOR_TYPE_SHAPE, name)
    if shape is None:
        return Tensor(name, type_name or "unknown", None)
    dimensions = _messages(shape, frozenset({_SHAPE_DIMENSION}), "TensorShapeProto")
    sizes = tuple(read_dimension(value) for _, value in dimensions)
    return Tensor(name, type_name or "unknown", sizes)


def read_dimension(message: memoryview) -> int | str | None:
    size: int | str | None = None
    for number, _, value in read_fields(message, _DIMENSION):
        if number == _DIMENSION_VALUE and isinstance(value, int):
            size = value
        elif number == _DIMENSION_NAME and isinstance(value, memoryview):
            size = _decode(value) or None
    return size


def _only(message: memoryview, number: int, name: str) -> memoryview | None:
    found = [value for _, value in _messages(message, frozenset({number}), quoted(name))]
    if len(found) > 1:
        raise _MalformedError(f"the type of {quoted(name)} more than once")
    return found[0] if found else None


def read_text(message: memoryview, number: int) -> str:
    texts = [value for _, value in _messages(message, frozenset({number}), "text")]
    return _decode(texts[-1]) if texts else ""


def _decode(value: memoryview) -> str:
    return bytes(value[:_LONGEST_NAME]).decode("utf-8", errors="replace")


def _messages(
    message: memoryview, wanted: frozenset[int], kind: str
) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of the wanted fields that carry bytes."""
    try:
        for number, wire, value in read_fields(message, wanted):
            if wire == _BYTES:
                yield number, value  # type: ignore[misc] # what carries bytes is a view of them
    except _MalformedError as error:
        raise _MalformedError(f"{error} in {kind}") from error


def read_fields(
    message: memoryview, wanted: frozenset[int]
) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield number, wire type and value (integer or bytes) of the wanted fields of a message.

    The other fields must be well-formed, too, so that the runtime cannot read them differently.
    """
    position, end = 0, len(message)
    while position < end:
        # Nearly all numbers have one byte; calling a function for each would double the time.
        tag = message[position]
        position += 1
        if tag >= _CONTINUED:
            tag, position = read_varint(message, position - 1)
        number, wire = tag >> 3, tag & 7
        if number == 0 or wire not in _WIRE_TYPES:
            raise _MalformedError("field number 0" if number == 0 else f"wire type {wire}")
        value = _FIXED_SIZES.get(wire)
        if value is None:
            value = message[position] if position < end else _CONTINUED
            position += 1
            if value >= _CONTINUED:
                value, position = read_varint(message, position - 1)
        begin = position
        if wire != _VARINT:
            position += value
            if position > end:
                raise _MalformedError("a field that is cut off")
        if number in wanted:
            yield number, wire, value if wire == _VARINT else message[begin:position]


def read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(message[position : position + _LONGEST_VARINT]):
        value |= (byte & ~_CONTINUED) << (7 * index)
        if byte < _CONTINUED:
            return value & _VARINT_BITS, position + index + 1
    raise _MalformedError("an unfinished number")


def with_weights_of(content: bytes, other: bytes) -> bytes:
    """Add the initialisers of one ONNX file to another one.

    Messages of protocol buffers are merged by writing one after the other
    (https://protobuf.dev/programming-guides/encoding/#last-one-wins), so a second graph with
    nothing but initialisers adds them to the first.
    """
    tensors = graph_fields(other, _GRAPH_INITIALIZER)
    added = b"".join(bytes_field(_GRAPH_INITIALIZER, tensor) for tensor in tensors)
    return content + bytes_field(_MODEL_GRAPH, added)


def graph_fields(content: bytes, number: int) -> Iterator[memoryview]:
    for _, graph in _messages(memoryview(content), frozenset({_MODEL_GRAPH}), "ModelProto"):
        for _, value in _messages(graph, frozenset({number}), "GraphProto"):
            yield value


def number_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def bytes_field(number: int, value: bytes | memoryview) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + bytes(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    rest = value & _VARINT_BITS
    while rest >= _CONTINUED:
        encoded.append(rest % _CONTINUED | _CONTINUED)
        rest //= _CONTINUED
    encoded.append(rest)
    return bytes(encoded)


MOST_BYTES: Final = 1 << 28  # that are read ahead: files that nobody asks for take memory, too


@dataclass(frozen=True, slots=True)
class GraphContent:
    data: bytes = field(repr=False)
    sha256: str


def read_content(path: Path) -> GraphContent:
    data = path.read_bytes()
    return GraphContent(data, hashlib.sha256(data).hexdigest())


class PreloadedGraphs:
    """Reads the graphs of all bundles of a folder in the background, the largest first."""

    def __init__(self, folder: Path, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._reading: dict[Path, Future[GraphContent]] = {}
        total = 0
        # Ordinary files in the folders of bundles, as find_graph looks for them.
        found = {path: path.stat().st_size for path in folder.glob("*/*.onnx") if path.is_file()}
        for path, size in sorted(found.items(), key=lambda each: -each[1]):
            total += size
            if total <= MOST_BYTES:
                self._reading[path] = threads.submit(read_content, path)

    def read(self, path: Path) -> GraphContent:
        reading = self._reading.pop(path, None)
        if reading is None or reading.cancel():
            return read_content(path)
        return reading.result()

    def close(self) -> None:
        self._reading.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)
