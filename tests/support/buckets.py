"""A bucket in memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, BinaryIO

from shared.voices.objects import (
    ObjectExistsError,
    ObjectFacts,
    ObjectMissingError,
    SignedUpload,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta


@dataclass(frozen=True)
class StoredObject:
    data: bytes
    content_type: str
    generation: int


class MemoryBucket:
    """A `shared.ports.Bucket` that a test can make unreachable."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[str, StoredObject] = {}
        self.metadata: dict[str, Mapping[str, str]] = {}
        self.is_out_of_reach = False
        self._generations = count(1)

    def put(self, name: str, data: bytes, content_type: str = "audio/webm") -> int:
        stored = StoredObject(data, content_type, next(self._generations))
        self.objects[name] = stored
        return stored.generation

    async def connect(self) -> None:
        self._require_reach()

    async def sign_upload(
        self, name: str, *, content_type: str, max_bytes: int, lifetime: timedelta
    ) -> SignedUpload:
        self._require_reach()
        headers = {
            "Content-Type": content_type,
            "x-goog-content-length-range": f"0,{max_bytes}",
            "x-goog-if-generation-match": "0",
        }
        url = f"https://storage.example/{self.name}/{name}?X-Goog-Signature=up"
        return SignedUpload("PUT", url, headers, datetime.now(UTC) + lifetime, max_bytes)

    async def sign_download(
        self, name: str, *, lifetime: timedelta, filename: str
    ) -> tuple[str, datetime]:
        self._require_reach()
        url = f"https://storage.example/{self.name}/{name}?as={filename}&X-Goog-Signature=down"
        return url, datetime.now(UTC) + lifetime

    async def read(self, name: str, generation: int, *, max_bytes: int) -> bytes:
        self._require_reach()
        stored = self.objects.get(name)
        if stored is None or stored.generation != generation:
            raise ObjectMissingError(f"{self.name}/{name}#{generation} is not there")
        return stored.data[: max_bytes + 1]

    async def write(
        self,
        name: str,
        content: BinaryIO,
        *,
        content_type: str,
        size: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectFacts:
        self._require_reach()
        if name in self.objects:
            raise ObjectExistsError(f"{self.name}/{name} is there already")
        data = content.read()
        assert size is None or size == len(data)
        generation = self.put(name, data, content_type)
        self.metadata[name] = metadata or {}
        return ObjectFacts(self.name, name, generation, content_type, len(data))

    async def find(self, name: str) -> ObjectFacts:
        self._require_reach()
        stored = self.objects.get(name)
        if stored is None:
            raise ObjectMissingError(f"{self.name}/{name} is not there")
        return ObjectFacts(
            self.name, name, stored.generation, stored.content_type, len(stored.data)
        )

    async def list(self, prefix: str = "", *, most: int | None = None) -> Sequence[ObjectFacts]:
        self._require_reach()
        names = [name for name in sorted(self.objects) if name.startswith(prefix)]
        return [await self.find(name) for name in names[:most]]

    async def delete(self, name: str, generation: int | None = None) -> None:
        self._require_reach()
        stored = self.objects.get(name)
        if stored is not None and generation in {None, stored.generation}:
            del self.objects[name]

    async def empty(self, name: str, generation: int | None = None) -> None:
        self._require_reach()
        stored = self.objects.get(name)
        if generation is None or (stored is not None and stored.generation == generation):
            self.put(name, b"", "application/octet-stream")

    async def delete_all(self, prefix: str, *, except_for: str = "") -> None:
        self._require_reach()
        for name in [n for n in self.objects if n.startswith(prefix) and n != except_for]:
            del self.objects[name]

    def _require_reach(self) -> None:
        if self.is_out_of_reach:
            raise StorageUnavailableError(f"Cloud Storage did not answer for {self.name}")
