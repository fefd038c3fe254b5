"""The tensors of a PyTorch archive as numpy arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from importing.files.errors import VoiceFileError
from shared.process.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from importing.files.torch_archive import TorchArchive
    from importing.files.torch_pickle import TensorPlace

MAX_TENSORS = 4_096
MAX_AXES = 5
MAX_TENSOR_BYTES = 1 << 29
"""Of all tensors together; a voice has 27 million values, which are 110 MB in float32."""

_BYTES_PER_ELEMENT = {"bfloat16": 2}


def read_tensors(
    archive: TorchArchive, places: Mapping[str, TensorPlace]
) -> dict[str, NDArray[np.float32]]:
    """Read floating-point tensors, in float32.

    Args:
        archive: that has them.
        places: where every tensor lies, by name.

    Raises:
        VoiceFileError: a tensor does not fit into its storage, is not of floating point, or they
            are larger than those of any voice.
    """
    if len(places) > MAX_TENSORS:
        raise VoiceFileError(f"expected at most {MAX_TENSORS} tensors, found {len(places)}.")
    for name, place in places.items():
        _check_place(name, place)
    together = 4 * sum(math.prod(place.shape) for place in places.values())
    if together > MAX_TENSOR_BYTES:
        raise VoiceFileError(
            f"expected tensors of at most {MAX_TENSOR_BYTES} bytes together, found {together}."
        )
    return {name: _read_tensor(archive, name, place) for name, place in places.items()}


def _check_place(name: str, place: TensorPlace) -> None:
    """Refuse a tensor that reaches beyond its storage or has more elements than it."""
    if place.storage.element_type not in {"<f2", "<f4", "<f8", "bfloat16"}:
        raise VoiceFileError(
            f"tensor {quoted(name)}: expected floating-point numbers, found"
            f" {place.storage.element_type}."
        )
    sizes = " x ".join(str(size) for size in place.shape[:MAX_AXES])
    if len(place.shape) > MAX_AXES:
        raise VoiceFileError(
            f"tensor {quoted(name)}: expected at most {MAX_AXES} axes, found {len(place.shape)}."
        )
    count = math.prod(place.shape)
    steps = sum((size - 1) * step for size, step in zip(place.shape, place.strides, strict=True))
    last = place.offset + steps
    if count and (count > place.storage.count or last >= place.storage.count):
        raise VoiceFileError(
            f"tensor {quoted(name)}: expected a shape that fits into its storage of"
            f" {place.storage.count} elements, found {sizes} from element {place.offset}."
        )


def _read_tensor(archive: TorchArchive, name: str, place: TensorPlace) -> NDArray[np.float32]:
    storage = place.storage
    element = storage.element_type
    width = _BYTES_PER_ELEMENT.get(element) or np.dtype(element).itemsize
    content = archive.storage(storage.key, storage.count * width)
    elements = _from_bfloat16(content) if element == "bfloat16" else np.frombuffer(content, element)
    view = np.lib.stride_tricks.as_strided(
        elements[place.offset :],
        place.shape,
        [step * elements.itemsize for step in place.strides],
        writeable=False,
    )
    with np.errstate(over="ignore"):
        tensor = np.array(view, np.float32, order="C")
    if not np.isfinite(tensor).all():
        raise VoiceFileError(
            f"tensor {quoted(name)}: expected finite numbers, found others; the training has gone"
            " wrong or the file is damaged."
        )
    return tensor


def _from_bfloat16(content: bytes) -> NDArray[np.float32]:
    """Widen bfloat16, which is the upper half of float32."""
    upper = np.left_shift(np.frombuffer(content, "<u2"), 16, dtype=np.uint32)
    widened: NDArray[np.float32] = upper.view(np.float32)
    return widened
