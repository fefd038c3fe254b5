"""Reads the weights of Whisper from a `model.bin` of CTranslate2, which is a plain list.

The file that characters are made with is Whisper base, multilingual (OpenAI, MIT), converted by
Systran; see training/README.md for where it comes from.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
"""Of the `model.bin` of Whisper base, multilingual, in half precision."""

_KINDS = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}


class WeightsError(ValueError):
    """The file holds other weights than expected; one sentence."""


def read_encoder_weights(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the weights of the encoder by their names in the file, such as `conv1/weight`.

    Raises:
        WeightsError: the file is not the one that is expected.
    """
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != MODEL_SHA256:
        raise WeightsError(
            f"{path.name}: expected Whisper base with the SHA-256 {MODEL_SHA256}, found {found}."
        )
    return {
        name.removeprefix("encoder/"): value.astype(np.float32)
        for name, value in _read(content).items()
        if name.startswith("encoder/")
    }


def _read(content: bytes) -> dict[str, NDArray[np.generic]]:
    """Read all weights: version, name, revision and count, then each one with its shape."""
    place = 4
    _, place = _text(content, place)
    (count,) = struct.unpack_from("<I", content, place + 4)
    place += 8
    weights = {}
    for _ in range(count):
        name, place = _text(content, place)
        rank = content[place]
        shape = struct.unpack_from(f"<{rank}I", content, place + 1)
        place += 1 + 4 * rank
        kind = np.dtype(_KINDS[content[place]])
        (size,) = struct.unpack_from("<I", content, place + 1)
        place += 5
        values = np.frombuffer(content, kind, size // kind.itemsize, place)
        weights[name] = values.reshape(shape)
        place += size
    return weights


def _text(content: bytes, place: int) -> tuple[str, int]:
    """Read a text that ends with a zero, with its length before it; return it and its end."""
    (length,) = struct.unpack_from("<H", content, place)
    begin = place + 2
    return content[begin : begin + length - 1].decode(), begin + length
