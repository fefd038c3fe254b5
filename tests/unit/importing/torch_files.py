"""Writes archives as PyTorch does, and such that are wrong in a chosen way."""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_STORAGES = {"<f2": "HalfStorage", "<f4": "FloatStorage", "<f8": "DoubleStorage"}


@dataclass(frozen=True)
class Stored:
    """A tensor as the pickle describes it; what is None follows from the array."""

    array: NDArray[Any]
    storage: str | None = None
    offset: int = 0
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Raw:
    """Instructions of a pickle."""

    content: bytes


class Writer:
    """Collects the pickle and the storages of one archive."""

    def __init__(self) -> None:
        self.storages: list[bytes] = []

    def pickled(self, value: Any) -> bytes:
        """Write a value with the instructions that PyTorch uses."""
        match value:
            case Raw():
                return value.content
            case np.ndarray() | Stored():
                return self._tensor(value if isinstance(value, Stored) else Stored(value))
            case dict():
                pairs = b"".join(self.pickled(k) + self.pickled(v) for k, v in value.items())
                return b"}(" + pairs + b"u"
            case list():
                return b"](" + b"".join(self.pickled(each) for each in value) + b"e"
            case tuple():
                return b"(" + b"".join(self.pickled(each) for each in value) + b"t"
            case _:
                return pickle.dumps(value, 2)[2:-1]

    def _tensor(self, stored: Stored) -> bytes:
        array = np.ascontiguousarray(stored.array)
        storage = stored.storage or _STORAGES[array.dtype.str]
        key = str(len(self.storages))
        self.storages.append(array.tobytes())
        shape = stored.array.shape if stored.shape is None else stored.shape
        contiguous = tuple(step // array.itemsize for step in array.strides)
        strides = contiguous[: len(shape)] if stored.strides is None else stored.strides
        name = Raw(f"ctorch\n{storage}\n".encode())
        place = self.pickled(("storage", name, key, "cpu", array.size)) + b"Q"
        rest = (
            Raw(place),
            stored.offset,
            shape,
            strides,
            False,
            Raw(b"ccollections\nOrderedDict\n)R"),
        )
        return b"ctorch._utils\n_rebuild_tensor_v2\n" + self.pickled(rest) + b"R"


def archive(
    value: Any, *, compression: int = zipfile.ZIP_STORED, extra: Mapping[str, bytes] | None = None
) -> bytes:
    """Write an archive as `torch.save` does."""
    writer = Writer()
    content = b"\x80\x02" + writer.pickled(value) + b"."
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as members:
        members.writestr("voice/data.pkl", content)
        members.writestr("voice/byteorder", b"little")
        for number, storage in enumerate(writer.storages):
            members.writestr(f"voice/data/{number}", storage)
        for name, part in (extra or {}).items():
            members.writestr(name, part)
    return file.getvalue()


def pickle_of(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        return members.read("voice/data.pkl")


def with_pickle(content: bytes, pickled: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, pickled if name == "voice/data.pkl" else old.read(name))
    return file.getvalue()
