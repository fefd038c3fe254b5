"""The layers that the parts of the synthesizer share, with the weights' shapes checked.

Signals are [1, C, 1, T]: ONNX Runtime blocks the channels of two-dimensional convolutions for the
processor's vector units, and leaves one-dimensional ones as they are. What that gives stands in
`importing.rvc.synthesizer.build`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from importing.files.errors import VoiceFileError
from shared.process.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from importing.files.graph_builder import GraphBuilder


class Weights:
    """The weights of a voice, of which every one must be used once, in the expected shape.

    Args:
        tensors: float32 by name.
    """

    def __init__(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        self._tensors = dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int | None) -> NDArray[np.float32]:
        """Take a tensor out.

        Args:
            name: of the tensor.
            shape: its sizes; None where any will do.

        Raises:
            VoiceFileError: it is missing or has another shape.
        """
        expected = f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
        tensor = self._tensors.pop(name, None)
        if tensor is None:
            raise VoiceFileError(f"tensor {quoted(name)}: expected {expected}, found none.")
        fits = len(shape) == tensor.ndim and all(
            size in {None, found} for size, found in zip(shape, tensor.shape, strict=True)
        )
        if not fits:
            raise VoiceFileError(
                f"tensor {quoted(name)}: expected {expected}, found {list(tensor.shape)}."
            )
        return tensor

    def finish(self) -> None:
        """Refuse a voice with weights that no part of the network has taken.

        Raises:
            VoiceFileError: there is one: the network is another one than it seems.
        """
        for name, tensor in self._tensors.items():
            raise VoiceFileError(
                f"tensor {quoted(name)}: expected none of this name in such a voice, found"
                f" {list(tensor.shape)}."
            )


def convolution(
    graph: GraphBuilder,
    signal: str,
    weight: NDArray[np.float32],
    bias: NDArray[np.float32] | None,
    *,
    dilation: int = 1,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
) -> str:
    """Add a convolution over time.

    Args:
        graph: to add to.
        signal: [1, C, 1, T].
        weight: [D, C, K].
        bias: [D] or None.
        dilation: between the kernel's taps.
        stride: between the results.
        padding: zeros before and after.

    Returns:
        [1, D, 1, T'].
    """
    inputs = [signal, graph.constant(weight[:, :, None, :])]
    if bias is not None:
        inputs.append(graph.constant(bias))
    return graph.node(
        "Conv",
        *inputs,
        kernel_shape=[1, weight.shape[2]],
        dilations=[1, dilation],
        strides=[1, stride],
        pads=[0, padding[0], 0, padding[1]],
    )


def centred(kernel: int, dilation: int = 1) -> tuple[int, int]:
    """Return the padding that keeps the length: the longer half goes to the end."""
    reach = (kernel - 1) * dilation
    return reach // 2, reach - reach // 2


def leaky(graph: GraphBuilder, signal: str, slope: float) -> str:
    """Add a leaky rectifier."""
    return graph.node("LeakyRelu", signal, alpha=slope)


def sum_of(graph: GraphBuilder, signals: Sequence[str]) -> str:
    """Add signals up."""
    total = signals[0]
    for signal in signals[1:]:
        total = graph.node("Add", total, signal)
    return total
