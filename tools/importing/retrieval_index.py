"""Retrieval indexes of RVC (`.index`), read without faiss, whose own reader trusts its files.

Only the one layout that RVC's tools write is read: an inverted file over plain vectors,
`IVFn,Flat` with the Euclidean distance. In little-endian order (faiss, impl/index_write.cpp):

    "IwFl"  header, uint64 cells, uint64 cells to search
      "IxF2"  header of the cells' centroids, uint64 count of float32, the centroids
      direct map: uint8 kind, uint64 count, int64 entries
      "ilar"  uint64 cells, uint64 bytes per vector, "full" or "sprs", uint64 count, sizes,
              and per cell its vectors and their int64 numbers
    header: int32 width, int64 vectors, 2 x int64, uint8 is trained, int32 metric
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shared.runtime.quoting import quoted
from tools.bundles.files import VoiceFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_INDEX_BYTES = 1 << 30
MAX_CELLS = 1 << 16
MAX_WIDTH = 4_096
MAX_VECTORS = 1 << 20

_HEADER = struct.Struct("<iqqqBi")
_EUCLIDEAN = 1
_NO_DIRECT_MAP, _ARRAY = 0, 1
_INVERTED_FILE, _FLAT, _LISTS = b"IwFl", b"IxF2", b"ilar"
_ALL_SIZES, _SOME_SIZES = b"full", b"sprs"


@dataclass(frozen=True)
class RetrievalIndex:
    """The vectors of a voice's recordings, and the cells that they lie in.

    Attributes:
        vectors: float32 [N, F], by number.
        centroids: float32 [M, F] of the cells.
        cells: int32 [N], the cell of every vector.
    """

    vectors: NDArray[np.float32]
    centroids: NDArray[np.float32]
    cells: NDArray[np.int32]
    probes: int


def read_index(content: bytes, width: int | None = None) -> RetrievalIndex:
    if len(content) > MAX_INDEX_BYTES:
        raise VoiceFileError(f"expected at most {MAX_INDEX_BYTES} bytes, found {len(content)}.")
    reader = _Reader(memoryview(content))
    reader.expect(_INVERTED_FILE, "an index of the kind IVF,Flat")
    found, count = reader.header("index")
    if width is not None and found != width:
        raise VoiceFileError(
            f"expected vectors of {width} numbers as the voice takes them, found {found}:"
            " the index belongs to a voice of another version."
        )
    if count == 0:
        raise VoiceFileError(
            "expected an index with vectors, found none: this is a 'trained_*.index'; bring the"
            " 'added_*.index' beside it."
        )
    cell_count = reader.count("cells", 1, MAX_CELLS)
    probes = reader.count("cells to search", 1, cell_count)
    centroids = read_centroids(reader, found, cell_count)
    skip_direct_map(reader)
    vectors, order, sizes = read_lists(reader, found, count, cell_count)
    reader.finish()
    return in_order(centroids, vectors, order, sizes, probes)


def read_centroids(reader: _Reader, width: int, cells: int) -> NDArray[np.float32]:
    reader.expect(_FLAT, "plain centroids")
    found, count = reader.header("centroids")
    if (found, count) != (width, cells):
        raise VoiceFileError(
            f"centroids: expected {cells} of {width} numbers, found {count} of {found}."
        )
    reader.count("numbers of the centroids", width * cells, width * cells)
    return finite("centroids", reader.numbers(width * cells)).reshape(cells, width)


def skip_direct_map(reader: _Reader) -> None:
    kind = reader.byte()
    if kind not in {_NO_DIRECT_MAP, _ARRAY}:
        raise VoiceFileError(f"direct map: expected none or a list, found the kind {kind}.")
    reader.whole_numbers(reader.count("entries of the direct map", 0, MAX_VECTORS))


def read_lists(
    reader: _Reader, width: int, count: int, cells: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], list[int]]:
    """Return the vectors, their numbers, and how many every cell has."""
    reader.expect(_LISTS, "lists of vectors")
    reader.count("lists", cells, cells)
    reader.count("bytes per vector", 4 * width, 4 * width)
    sizes = read_sizes(reader, cells)
    if sum(sizes) != count:
        raise VoiceFileError(f"lists: expected {count} vectors together, found {sum(sizes)}.")
    vectors, numbers = [], []
    for size in sizes:
        vectors.append(reader.numbers(size * width).reshape(size, width))
        numbers.append(reader.whole_numbers(size))
    return finite("vectors", np.concatenate(vectors)), np.concatenate(numbers), sizes


def read_sizes(reader: _Reader, cells: int) -> list[int]:
    kind = reader.take(4)
    if kind == _ALL_SIZES:
        reader.count("sizes of lists", cells, cells)
        return [bounded(size) for size in reader.whole_numbers(cells).tolist()]
    if kind != _SOME_SIZES:
        raise VoiceFileError(f"lists: expected their sizes, found {quoted(bytes(kind))}.")
    count = reader.count("sizes of lists", 0, 2 * cells)
    sizes = [0] * cells
    pairs = reader.whole_numbers(count).tolist()
    for cell, size in zip(pairs[::2], pairs[1::2], strict=False):
        if not 0 <= cell < cells:
            raise VoiceFileError(f"lists: expected a cell below {cells}, found {cell}.")
        sizes[cell] = bounded(size)
    return sizes


def bounded(size: int) -> int:
    if not 0 <= size <= MAX_VECTORS:
        raise VoiceFileError(f"lists: expected 0 to {MAX_VECTORS} vectors, found {size}.")
    return size


def in_order(
    centroids: NDArray[np.float32],
    vectors: NDArray[np.float32],
    order: NDArray[np.int64],
    sizes: list[int],
    probes: int,
) -> RetrievalIndex:
    count = len(vectors)
    if not np.array_equal(np.sort(order), np.arange(count)):
        raise VoiceFileError(f"lists: expected every number below {count} once, found others.")
    by_number = np.empty_like(vectors)
    by_number[order] = vectors
    cells = np.empty(count, np.int32)
    cells[order] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return RetrievalIndex(by_number, centroids, cells, probes)


def finite(what: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise VoiceFileError(f"{what}: expected finite numbers, found others.")
    return values


class _Reader:
    """Reads a file from its beginning to its end, never beyond it."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int) -> memoryview:
        end = self._at + size
        if end > len(self._content):
            raise VoiceFileError(
                f"expected {size} more bytes after byte {self._at}, found"
                f" {len(self._content) - self._at}: the file ends too early."
            )
        piece, self._at = self._content[self._at : end], end
        return piece

    def expect(self, magic: bytes, what: str) -> None:
        found = bytes(self.take(len(magic)))
        if found != magic:
            raise VoiceFileError(
                f"expected {what} as RVC writes it ({quoted(magic)}), found {quoted(found)}."
            )

    def byte(self) -> int:
        return self.take(1)[0]

    def count(self, what: str, least: int, most: int) -> int:
        (value,) = struct.unpack("<Q", self.take(8))
        if not least <= value <= most:
            expected = f"{least}" if least == most else f"{least} to {most}"
            raise VoiceFileError(f"{what}: expected {expected}, found {value}.")
        return int(value)

    def header(self, what: str) -> tuple[int, int]:
        """Return the width and the number of vectors."""
        width, vectors, _, _, _, metric = _HEADER.unpack(self.take(_HEADER.size))
        if not 1 <= width <= MAX_WIDTH or not 0 <= vectors <= MAX_VECTORS:
            raise VoiceFileError(
                f"{what}: expected at most {MAX_VECTORS} vectors of at most {MAX_WIDTH} numbers,"
                f" found {vectors} of {width}."
            )
        if metric != _EUCLIDEAN:
            raise VoiceFileError(
                f"{what}: expected the Euclidean distance (1), found the metric {metric}."
            )
        return width, vectors

    def numbers(self, count: int) -> NDArray[np.float32]:
        return np.frombuffer(self.take(4 * count), "<f4")

    def whole_numbers(self, count: int) -> NDArray[np.int64]:
        return np.frombuffer(self.take(8 * count), "<i8")

    def finish(self) -> None:
        rest = len(self._content) - self._at
        if rest:
            raise VoiceFileError(f"expected the end of the file, found {rest} more bytes.")
