"""Writes retrieval indexes as RVC's tools do, and such that are wrong in a chosen way."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Index:
    """An index of the kind IVF,Flat.

    Attributes:
        width: numbers per vector.
        metric: 1 is Euclidean.
        direct_map: entries of the direct map, or None.
    """

    width: int = 4
    sizes: tuple[int, ...] = (3, 0, 2)
    is_sparse: bool = False
    metric: int = 1
    direct_map: int | None = None
    parts: dict[str, bytes] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.sizes)

    def vectors(self) -> np.ndarray:
        random = np.random.default_rng(self.width)
        return random.standard_normal((self.count, self.width)).astype("<f4")

    def centroids(self) -> np.ndarray:
        return np.arange(len(self.sizes) * self.width, dtype="<f4").reshape(-1, self.width)

    def numbers(self) -> np.ndarray:
        """Return the vectors' numbers, cell after cell; the last comes first."""
        return np.arange(self.count)[::-1].astype("<i8")

    def cells(self) -> list[int]:
        return [cell for cell, size in enumerate(self.sizes) for _ in range(size)][::-1]

    def content(self) -> bytes:
        cells = len(self.sizes)
        centroids = self.centroids().tobytes()
        parts = {
            "magic": b"IwFl",
            "header": self._header(self.count),
            "cells": struct.pack("<QQ", cells, 1),
            "flat": b"IxF2",
            "centroid header": self._header(cells),
            "centroids": struct.pack("<Q", len(centroids) // 4) + centroids,
            "map": self._map(),
            "lists": b"ilar" + struct.pack("<QQ", cells, 4 * self.width),
            "sizes": self._sizes(),
            "vectors": self._lists(),
        }
        return b"".join((parts | self.parts).values())

    def _header(self, count: int) -> bytes:
        return struct.pack("<iqqqBi", self.width, count, 1 << 20, 1 << 20, 1, self.metric)

    def _map(self) -> bytes:
        if self.direct_map is None:
            return struct.pack("<BQ", 0, 0)
        return struct.pack("<BQ", 1, self.direct_map) + bytes(8 * self.direct_map)

    def _sizes(self) -> bytes:
        if not self.is_sparse:
            return b"full" + struct.pack(f"<Q{len(self.sizes)}Q", len(self.sizes), *self.sizes)
        pairs = [(cell, size) for cell, size in enumerate(self.sizes) if size]
        flat = [number for pair in pairs for number in pair]
        return b"sprs" + struct.pack(f"<Q{len(flat)}Q", len(flat), *flat)

    def _lists(self) -> bytes:
        vectors, numbers = self.vectors(), self.numbers()
        content, at = b"", 0
        for size in self.sizes:
            own = numbers[at : at + size]
            content += vectors[own].tobytes() + own.tobytes()
            at += size
        return content
