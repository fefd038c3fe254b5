"""Reads the tensors and nodes of a trusted ONNX model, and cuts parts out of it.

Field numbers are those of onnx.proto of ONNX 1.17. What is not needed here is not checked: whoever
made the model is known, by the SHA-256 of its file.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.speech.graphs.onnx_files import (
    bytes_field,
    graph_fields,
    number_field,
    read_fields,
    read_text,
    read_varint,
)

_NODE, _NAME, _INITIALIZER, _INPUT, _OUTPUT = 1, 2, 5, 11, 12
_SIZE, _KIND, _FLOATS, _INT32S, _INT64S, _TENSOR_NAME, _RAW = 1, 2, 4, 5, 7, 8, 9
_TYPES: Final[Mapping[int, type[np.generic]]] = dict(
    zip((1, 2, 3, 6, 7), (np.float32, np.uint8, np.int8, np.int32, np.int64), strict=True)
)


class Node(NamedTuple):
    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    message: memoryview


class ModelParts:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._tensors = {read_text(each, 8): each for each in graph_fields(content, _INITIALIZER)}
        self.nodes = [_read_node(each) for each in graph_fields(content, _NODE)]

    def tensor(self, name: str) -> NDArray[Any]:
        """Return a copy of an initialiser; KeyError if there is none of the name."""
        return _read_tensor(self._tensors[name])

    def until(self, outputs: Sequence[str]) -> bytes:
        """Cut out the model that computes some of its tensors, of any type and shape."""
        wanted, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                wanted.update(node.inputs)
                nodes.append(bytes_field(_NODE, node.message))
        graph = [*reversed(nodes), bytes_field(_NAME, b"part")]
        for field, name in ((_INITIALIZER, _TENSOR_NAME), (_INPUT, 1)):
            graph += [
                bytes_field(field, each)
                for each in graph_fields(self._content, field)
                if read_text(each, name) in wanted
            ]
        graph += [bytes_field(_OUTPUT, bytes_field(1, name.encode())) for name in outputs]
        versions = [
            bytes_field(number, value) if isinstance(value, memoryview) else number_field(1, value)
            for number, _, value in read_fields(memoryview(self._content), frozenset({1, 8}))
        ]
        return b"".join([*versions, bytes_field(7, b"".join(graph))])


def _read_node(message: memoryview) -> Node:
    names: dict[int, list[str]] = {1: [], 2: [], 3: [""]}
    for number, _, value in read_fields(message, frozenset(names)):
        if isinstance(value, memoryview):
            names[number].append(bytes(value).decode())
    return Node(names[3][-1], names[1], names[2], message)


def _read_tensor(message: memoryview) -> NDArray[Any]:
    sizes: list[int] = []
    kind, values = 0, np.zeros(0)
    wanted = frozenset({_SIZE, _KIND, _FLOATS, _INT32S, _INT64S, _RAW})
    for number, _, value in read_fields(message, wanted):
        if isinstance(value, int):
            kind = value if number == _KIND else kind
            sizes += [value] if number == _SIZE else []
        elif number in {_INT32S, _INT64S}:
            values = np.array(list(_varints(value)), np.uint64).view(np.int64)
        else:
            values = np.frombuffer(value, np.float32 if number == _FLOATS else _TYPES[kind])
    return values.astype(_TYPES[kind]).reshape(sizes)


def _varints(message: memoryview) -> Iterator[int]:
    position = 0
    while position < len(message):
        value, position = read_varint(message, position)
        yield value
