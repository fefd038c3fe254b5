"""The ZIP archives that `torch.save` writes, read without torch and within limits.

Such an archive has one folder: `data.pkl` describes the objects, `data/KEY` holds the bytes of the
storage KEY, and nothing in it is compressed (PyTorch, caffe2/serialize/inline_container.h).
"""

from __future__ import annotations

import math
import struct
import zipfile
from typing import TYPE_CHECKING

import numpy as np

from shared.runtime.quoting import quoted
from tools.bundles.files import VoiceFileError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from numpy.typing import NDArray

    from tools.importing.torch_pickle import TensorPlace


MAX_ARCHIVE_BYTES = 1 << 31
MAX_PICKLE_BYTES = 16 << 20
MAX_MEMBERS = 20_000

_ZIP_MAGIC = b"PK\x03\x04"
_END_MAGIC = b"PK\x05\x06"
_END_BYTES = 22
_LONGEST_COMMENT = 0xFFFF
# The end of the central directory: magic, two disks, two counts, its size, its offset, a comment.
_END = struct.Struct("<4s4H2LH")
# Its numbers as ZIP64 has them, behind a locator in front of it; zipfile prefers these.
_END64_MAGIC = b"PK\x06\x06"
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_BYTES = 20
_LARGEST_ENTRY = 512  # of the central directory, by far


class TorchArchive:
    """One archive of `torch.save`, open for reading."""

    def __init__(self, file: BinaryIO) -> None:
        size = checked_size(file)
        try:
            self._zip = zipfile.ZipFile(file)
            members = self._zip.infolist()
        except (
            zipfile.BadZipFile,
            ValueError,
            OSError,
            NotImplementedError,
            struct.error,
        ) as error:
            raise VoiceFileError(
                f"expected a ZIP archive as PyTorch writes it, found a damaged one ({of(error)})."
            ) from error
        self._members = checked_members(members, size)
        self._folder = folder_of(self._members)
        name = f"{self._folder}byteorder"
        if name in self._members and self._read(name, 16) != b"little":
            raise VoiceFileError("expected numbers in little-endian order, found another order.")

    def close(self) -> None:
        self._zip.close()

    def pickle(self) -> bytes:
        return self._read(f"{self._folder}data.pkl", MAX_PICKLE_BYTES)

    def storage(self, key: str, size: int) -> bytes:
        name = f"{self._folder}data/{key}"
        member = self._members.get(name)
        if member is None:
            raise VoiceFileError(
                f"storage {quoted(key)}: expected {size} bytes, found no such part."
            )
        if member.file_size != size:
            raise VoiceFileError(
                f"storage {quoted(key)}: expected {size} bytes, found {member.file_size}."
            )
        return self._read(name, size)

    def _read(self, name: str, most: int) -> bytes:
        member = self._members[name]
        if member.file_size > most:
            raise VoiceFileError(
                f"part {quoted(name)}: expected at most {most} bytes, found {member.file_size}."
            )
        try:
            content = self._zip.read(member)
        except (
            zipfile.BadZipFile,
            ValueError,
            OSError,
            EOFError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise VoiceFileError(
                f"part {quoted(name)}: expected readable bytes, found damage ({of(error)})."
            ) from error
        if len(content) != member.file_size:
            raise VoiceFileError(
                f"part {quoted(name)}: expected {member.file_size} bytes, found {len(content)}."
            )
        return content


def checked_size(file: BinaryIO) -> int:
    """Return the file's size, once it is known that its table of contents fits into memory."""
    head = file.read(len(_ZIP_MAGIC))
    if head != _ZIP_MAGIC:
        kind = "a pickle of PyTorch before 1.6" if head[:1] == b"\x80" else "another kind of file"
        raise VoiceFileError(
            f"expected a ZIP archive as PyTorch 1.6 and newer write it, found {kind}; load and save"
            " the voice with a current version of the tool it comes from."
        )
    size = file.seek(0, 2)
    if size > MAX_ARCHIVE_BYTES:
        raise VoiceFileError(f"expected at most {MAX_ARCHIVE_BYTES} bytes, found {size}.")
    file.seek(max(0, size - _END_BYTES - _LONGEST_COMMENT - _END64.size - _LOCATOR_BYTES))
    tail = file.read()
    at = tail.rfind(_END_MAGIC)
    if at < 0 or len(tail) - at < _END_BYTES:
        raise VoiceFileError("expected a whole ZIP archive, found one that ends too early.")
    _, _, _, _, count, directory, _, _ = _END.unpack_from(tail, at)
    at64 = at - _LOCATOR_BYTES - _END64.size
    if at64 >= 0 and tail.startswith(_END64_MAGIC, at64):
        *_, count64, directory64, _ = _END64.unpack_from(tail, at64)
        count, directory = max(count, count64), max(directory, directory64)
    if count > MAX_MEMBERS or directory > MAX_MEMBERS * _LARGEST_ENTRY:
        raise VoiceFileError(
            f"expected an archive of at most {MAX_MEMBERS} parts, found a larger table of contents."
        )
    file.seek(0)
    return size


def checked_members(members: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    by_name = {member.filename: member for member in members}
    if len(by_name) < len(members):
        raise VoiceFileError("expected every part of the archive once, found one of them twice.")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise VoiceFileError(
                f"part {quoted(member.filename)}: expected plain bytes as PyTorch stores them,"
                " found compressed or encrypted ones."
            )
    # Parts that overlap could be read as more bytes than the file has.
    if sum(member.file_size for member in members) > size:
        raise VoiceFileError("expected parts that fit into the file, found parts that overlap.")
    return by_name


def folder_of(members: dict[str, zipfile.ZipInfo]) -> str:
    pickles = [name for name in members if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise VoiceFileError(
            f"expected one part 'data.pkl' as PyTorch writes it, found {len(pickles)}."
        )
    return pickles[0].removesuffix("data.pkl")


def of(error: Exception) -> str:
    return quoted(str(error)).strip("'\"").rstrip(".") or type(error).__name__


MAX_TENSORS = 4_096
MAX_AXES = 5
MAX_TENSOR_BYTES = 1 << 29
"""Of all tensors together; a voice has 27 million values, which are 110 MB in float32."""

_BYTES_PER_ELEMENT = {"bfloat16": 2}


def read_tensors(
    archive: TorchArchive, places: Mapping[str, TensorPlace]
) -> dict[str, NDArray[np.float32]]:
    if len(places) > MAX_TENSORS:
        raise VoiceFileError(f"expected at most {MAX_TENSORS} tensors, found {len(places)}.")
    for name, place in places.items():
        check_place(name, place)
    together = 4 * sum(math.prod(place.shape) for place in places.values())
    if together > MAX_TENSOR_BYTES:
        raise VoiceFileError(
            f"expected tensors of at most {MAX_TENSOR_BYTES} bytes together, found {together}."
        )
    return {name: read_tensor(archive, name, place) for name, place in places.items()}


def check_place(name: str, place: TensorPlace) -> None:
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


def read_tensor(archive: TorchArchive, name: str, place: TensorPlace) -> NDArray[np.float32]:
    storage = place.storage
    element = storage.element_type
    width = _BYTES_PER_ELEMENT.get(element) or np.dtype(element).itemsize
    content = archive.storage(storage.key, storage.count * width)
    elements = from_bfloat16(content) if element == "bfloat16" else np.frombuffer(content, element)
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


def from_bfloat16(content: bytes) -> NDArray[np.float32]:
    upper = np.left_shift(np.frombuffer(content, "<u2"), 16, dtype=np.uint32)
    widened: NDArray[np.float32] = upper.view(np.float32)
    return widened
