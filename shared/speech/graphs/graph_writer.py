"""Writes ONNX graphs without the ONNX library, which the container does not have.

Field numbers are those of onnx.proto of ONNX 1.17.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shared.speech.graphs.onnx_files import bytes_field, number_field

MICROSOFT: Final = "com.microsoft"
_IR_VERSION, _OPSET = 9, 20
_FLOAT, _INT, _INTS = 1, 2, 7
_TYPES: Final = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int8): 3} | {
    np.dtype(np.int64): 7
}


class GraphWriter:
    """Collects nodes and constants; each is named when it is added."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def add(
        self,
        operator: str,
        *inputs: str,
        domain: str = "",
        outputs: Sequence[str] = (),
        **attributes: float | Sequence[int],
    ) -> str:
        """Add a node; return the name of its first output."""
        names = list(outputs) or [f"n{len(self._nodes)}"]
        fields = [bytes_field(1, name.encode()) for name in inputs]
        fields += [bytes_field(2, name.encode()) for name in names]
        fields += [bytes_field(4, operator.encode()), bytes_field(7, domain.encode())]
        fields += [bytes_field(5, _attribute(*each)) for each in attributes.items()]
        self._nodes.append(bytes_field(1, b"".join(fields)))
        return names[0]

    def constant(self, values: NDArray[Any] | Sequence[int] | Sequence[Sequence[int]]) -> str:
        """Add a tensor of float32, uint8, int8 or int64; return its name."""
        array = np.ascontiguousarray(values)
        name = f"c{len(self._constants)}"
        fields = [number_field(1, size) for size in array.shape]
        fields += [number_field(2, _TYPES[array.dtype]), bytes_field(8, name.encode())]
        fields.append(bytes_field(9, array.tobytes()))
        self._constants.append(bytes_field(5, b"".join(fields)))
        return name

    def model(
        self, inputs: Mapping[str, tuple[type[np.generic], int]], outputs: Sequence[str]
    ) -> bytes:
        """Return the model; of each input the type and the number of its dimensions."""
        graph = [*self._nodes, bytes_field(2, b"graph"), *self._constants]
        for name, (kind, rank) in inputs.items():
            shape = b"".join(bytes_field(1, b"") for _ in range(rank))
            tensor = number_field(1, _TYPES[np.dtype(kind)]) + bytes_field(2, shape)
            described = bytes_field(1, name.encode()) + bytes_field(2, bytes_field(1, tensor))
            graph.append(bytes_field(11, described))
        graph += [bytes_field(12, bytes_field(1, name.encode())) for name in outputs]
        versions = [(b"", _OPSET), (MICROSOFT.encode(), 1)]
        return b"".join(
            [
                number_field(1, _IR_VERSION),
                bytes_field(7, b"".join(graph)),
                *(bytes_field(8, bytes_field(1, a) + number_field(2, b)) for a, b in versions),
            ]
        )


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    begin = bytes_field(1, name.encode())
    if isinstance(value, float):
        return begin + b"\x15" + struct.pack("<f", value) + number_field(20, _FLOAT)
    if isinstance(value, int):
        return begin + number_field(3, value) + number_field(20, _INT)
    return begin + b"".join(number_field(8, each) for each in value) + number_field(20, _INTS)
