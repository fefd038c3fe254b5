"""Graphs that share weights: one file holds them, the other one uses them by name."""

from speech.bundles.onnx_model import initialisers

_MODEL_GRAPH, _GRAPH_INITIALIZER = 7, 5
_BYTES = 2
_CONTINUED = 0x80


def with_weights_of(content: bytes, other: bytes) -> bytes:
    """Add the initialisers of one ONNX file to another one.

    Messages of protocol buffers are merged by writing one after the other
    (https://protobuf.dev/programming-guides/encoding/#last-one-wins), so a second graph with
    nothing but initialisers adds them to the first.

    Args:
        content: an inspected ONNX file; none of its tensors has the name of one that is added.
        other: another one.
    """
    added = b"".join(_field(_GRAPH_INITIALIZER, tensor) for tensor in initialisers(other))
    return content + _field(_MODEL_GRAPH, added)


def _field(number: int, value: bytes | memoryview) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + bytes(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= _CONTINUED:
        encoded.append(value % _CONTINUED | _CONTINUED)
        value //= _CONTINUED
    encoded.append(value)
    return bytes(encoded)
